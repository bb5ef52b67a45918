"""Updating some rows of a table of pairs, so that making a table costs what changed since the last one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np

from mdpfn.arrays import Floats, Ints, offsets_of, ranges_of
from mdpfn.evidence.table import PairTable, endings_of

NUMBERS_OF_PAIR = ("n_visits", "reward_sum", "reward_square_sum")
NUMBERS_OF_TRANSITION = ("transition_count", "n_terminated")
OF_PAIR = ("pair", "n_successors", *NUMBERS_OF_PAIR)
OF_TRANSITION = ("successor", *NUMBERS_OF_TRANSITION)


@dataclass(frozen=True, eq=False)
class TableRows:
    """Visited pairs of one MDP, ascending, and where they led: the columns of a `PairTable` that are data."""

    pair: Ints
    n_visits: Floats
    reward_sum: Floats
    reward_square_sum: Floats
    n_successors: Ints
    successor: Ints
    transition_count: Floats
    n_terminated: Floats

    @classmethod
    def of(
        cls,
        pairs: list[int],
        n_visits: dict[int, float],
        reward_sum: dict[int, float],
        reward_square_sum: dict[int, float],
        successors: dict[int, dict[int, float]],
        terminated: dict[int, dict[int, float]],
    ) -> TableRows:
        """Rows of these pairs, from dictionaries by pair, and by pair and successor."""
        rows = [successors[p] for p in pairs]
        n_successors = np.array([len(row) for row in rows], dtype=np.int64)
        total, nothing = int(n_successors.sum()), dict[int, float]()

        def column(values: Iterable[float], n: int = len(pairs)) -> Floats:
            return np.fromiter(values, np.float64, n)

        ended = ((terminated.get(p, nothing), row) for p, row in zip(pairs, rows, strict=True))
        return cls(
            pair=np.array(pairs, dtype=np.int64),
            n_visits=column(n_visits[p] for p in pairs),
            reward_sum=column(reward_sum[p] for p in pairs),
            reward_square_sum=column(reward_square_sum[p] for p in pairs),
            n_successors=n_successors,
            successor=np.fromiter(chain.from_iterable(rows), np.int64, total),
            transition_count=column(chain.from_iterable(row.values() for row in rows), total),
            n_terminated=column((ends.get(s, 0.0) if ends else 0.0 for ends, row in ended for s in row), total),
        )

    def in_place_of(self, table: PairTable, changed: Ints) -> dict[str, Ints | Floats]:
        """The columns of `table` with the rows of the `changed` pairs (ascending) replaced by these rows."""
        old = table.pair
        place = np.searchsorted(old, changed)
        present = place < len(old)
        present[present] = old[place[present]] == changed[present]
        kept = np.ones(len(old), dtype=bool)
        kept[place[present]] = False
        before = np.flatnonzero(kept)
        where = np.searchsorted(old[before], self.pair)
        stays = np.flatnonzero(np.repeat(kept, table.n_successors))
        start = np.repeat(offsets_of(table.n_successors[before])[where], self.n_successors)
        orders = _inserted(before, where, len(old)), _inserted(stays, start, len(table.successor))
        columns = {}
        for names, order in zip((OF_PAIR, OF_TRANSITION), orders, strict=True):
            for name in names:
                columns[name] = np.concatenate((getattr(table, name), getattr(self, name))).take(order)
        return columns

    def numbers_in(self, table: PairTable) -> dict[str, Floats] | None:
        """The numbers of `table` with those of these pairs replaced; None if that changes its structure."""
        rows = table.pair.searchsorted(self.pair)
        if not len(table.pair) or (table.pair.take(rows, mode="clip") != self.pair).any():
            return None
        if (table.n_successors[rows] != self.n_successors).any():
            return None
        entries = ranges_of(table.first_transition[rows], self.n_successors)
        endings = endings_of(table.transition_count[entries], table.n_terminated[entries])
        others = endings != endings_of(self.transition_count, self.n_terminated)
        if (others | (table.successor[entries] != self.successor)).any():
            return None
        numbers = {}
        for names, place in ((NUMBERS_OF_PAIR, rows), (NUMBERS_OF_TRANSITION, entries)):
            for name in names:
                numbers[name] = getattr(table, name).copy()
                numbers[name][place] = getattr(self, name)
        return numbers


def _inserted(order: Ints, where: Ints, first: int) -> Ints:
    """`order` with first, first + 1, … inserted in front of the places `where` (ascending)."""
    place = where + np.arange(len(where))
    inserted = np.empty(len(order) + len(where), dtype=np.int64)
    is_old = np.ones(len(inserted), dtype=bool)
    is_old[place] = False
    inserted[is_old], inserted[place] = order, np.arange(first, first + len(where))
    return inserted
