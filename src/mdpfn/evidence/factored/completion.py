"""Adding untried pairs to a table of pairs, predicted by rules over the factors of states."""

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints, offsets_of, sums_by
from mdpfn.evidence.factored.config import FactoredConfig
from mdpfn.evidence.factored.effects import Effects, Predictions, Tried
from mdpfn.evidence.factored.factors import Factors
from mdpfn.evidence.protocol import Transition
from mdpfn.evidence.table import PairTable

ROUNDING = 1e-9  # a relative variance of rewards below this is rounding
SAME = 1e-6  # rewards with a smaller relative difference are the same
MANY_VISITS = 8.0  # visits of one pair beyond this many tell no more about other pairs


@dataclass(frozen=True, eq=False)
class Foreseen:
    """The predicted transitions of untried pairs that have only one predicted successor."""

    pair: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # rising
    successor: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    reward: Floats = field(default_factory=lambda: np.zeros(0))
    ended: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))

    def __contains__(self, come: tuple[int, Transition]) -> bool:
        """Whether (pair, transition) is as predicted."""
        pair, transition = come
        at = int(np.searchsorted(self.pair, pair))
        if at == len(self.pair) or self.pair[at] != pair or self.successor[at] != transition.next_state:
            return False
        reward = float(self.reward[at])
        close = abs(reward - transition.reward) <= SAME * max(abs(reward), abs(transition.reward))
        return close and bool(self.ended[at]) == bool(transition.terminated)


class FactorsOfStates(Protocol):
    """Gives the factors of states, whose number may grow."""

    features: Any  # as the user gave them, if so

    def __call__(self, n_states: int) -> Factors:
        """The factors of the first states."""

    def table(self) -> list[list[Any] | None] | None:
        """The features that the user gave, state by state."""


class Completion:
    """Completes tables of states whose `factors` are known; it caches predictions by action."""

    def __init__(self, factors: FactorsOfStates) -> None:
        self.factors, self.config = factors, FactoredConfig()
        self._known: dict[int, tuple[tuple[bytes, ...], Predictions | None]] = {}  # by action: the data and its result
        self.foreseen = Foreseen()  # the predictions in the last table

    def __call__(self, table: PairTable, least_visits: float = 0.0) -> PairTable:
        """The table with predicted pairs added, each counting at least `least_visits` visits."""
        factors = self.factors(int(table.n_states[0]))
        self.foreseen = Foreseen()
        if not 2 <= len(factors.sizes) <= self.config.most_factors or not factors.countable or not len(table.pair):
            return table
        candidates = self._untried(table, factors)
        found: list[tuple[int, Predictions]] = []
        for action in range(int(table.n_actions[0])):
            predicted = self._predictions(table, factors, action)
            if predicted is not None:
                found.append((action, predicted.of_pairs(candidates[predicted.state, action])))
        return self._joined(table, found, least_visits) if found else table

    def _untried(self, z: PairTable, factors: Factors) -> Bools:
        """(S, A) pairs that may be predicted: untried, not terminal, and in large problems only of reached states."""
        states = factors.known & ~z.terminal_mask()
        if len(states) > self.config.most_states:
            states &= z.reached_mask()
        untried = np.repeat(states[:, None], int(z.n_actions[0]), axis=1)
        untried.reshape(-1)[z.pair] = False
        untried.reshape(-1)[z.forbidden] = False
        return untried

    def _predictions(self, z: PairTable, factors: Factors, action: int) -> Predictions | None:
        """What an action is predicted to do in every state; computed again only if its data changed."""
        rows = np.flatnonzero((z.action == action) & factors.known[z.state])
        if len(rows) < 2:
            return None
        tried = _tried(z, factors, action, rows)
        if tried is None:
            return None
        parts = (tried.state, tried.visits, tried.reward, tried.row, tried.successor, tried.count, tried.ended)
        seen = tuple(part.tobytes() for part in (z.n_states, *parts, *tried.existing))
        if self._known.get(action, ((),))[0] != seen:
            effects = Effects.of(tried, factors, self.config)
            self._known[action] = seen, None if effects is None else effects.predict(np.flatnonzero(factors.known))
        return self._known[action][1]

    def _joined(self, z: PairTable, found: list[tuple[int, Predictions]], least_visits: float) -> PairTable:
        """The table with all predictions, except for states that are themselves predicted to end episodes."""
        n_states, n_actions = int(z.n_states[0]), int(z.n_actions[0])
        start = offsets_of(np.array([len(one.state) for _, one in found]))
        state = np.concatenate([one.state for _, one in found])
        pair = np.concatenate([one.state * n_actions + action for action, one in found])
        visits = np.concatenate([one.visits for _, one in found])
        reward = np.concatenate([one.reward for _, one in found])
        row = np.concatenate([one.row + first for (_, one), first in zip(found, start, strict=False)])
        successor, share, ended = (
            np.concatenate([getattr(one, name) for _, one in found]) for name in ("successor", "share", "ended")
        )
        ends, left = np.zeros((2, n_states), dtype=bool)
        ends[successor[ended > 0]] = True
        left[z.state] = True
        kept = ~(ends & ~left)[state]
        kept[row[(ended < 1) & z.terminal_mask()[successor]]] = (
            False  # an episode ends there, and its reward is not known
        )
        place, stays = np.cumsum(kept) - 1, kept[row]
        row, successor, share, ended = place[row[stays]], successor[stays], share[stays], ended[stays]
        pair, visits, reward = pair[kept], np.maximum(visits[kept], least_visits), reward[kept]
        only = np.bincount(row, minlength=len(pair))[row] == 1
        order = np.argsort(pair[row[only]])
        surely = pair[row], successor, reward[row], ended > 0
        self.foreseen = Foreseen(*(part[only][order] for part in surely))
        return _with_pairs(z, pair, visits, reward, row, successor, share * visits[row], ended)


def _tried(z: PairTable, factors: Factors, action: int, rows: Ints) -> Tried | None:
    """The observations of one action; None where it led to states whose factors are not known.

    The numbers of pairs with many visits are rounded, so that predictions do not change with every further visit.
    """
    entries = np.isin(z.transition_row, rows)
    successor = z.successor[entries]
    if not factors.known[successor].all():
        return None
    row = np.searchsorted(rows, z.transition_row[entries])
    n, count = z.n_visits[rows], z.transition_count[entries]
    ended = z.n_terminated[entries] / count
    many = n[row] > MANY_VISITS
    count = np.where(many, np.maximum(np.round(MANY_VISITS * count / n[row]), 0.5), count)
    reward, square = z.mean_reward[rows], z.reward_square_sum[rows] / n
    variance = np.maximum(square - reward**2, 0.0)
    noisy = variance > ROUNDING * square
    step = 2.0 ** np.floor(np.log2(np.where(noisy, variance, 1.0)) / 2 - 3)
    n_actions = int(z.n_actions[0])
    masked = np.unique(z.forbidden // n_actions)
    state = np.union1d(masked, z.state[rows]) if len(masked) else masked
    return Tried(
        codes=factors.codes[z.state[rows]],
        state=z.state[rows],
        visits=sums_by(row, count, len(rows)),
        reward=np.where(noisy, np.round(reward / step) * step, reward),
        variance=np.where(noisy, np.round(variance / step**2) * step**2, 0.0),
        row=row,
        successor=successor,
        after=factors.codes[successor],
        count=count,
        ended=np.where(many, np.round(ended * MANY_VISITS) / MANY_VISITS, ended) * count,
        existing=(state, ~np.isin(state * n_actions + action, z.forbidden)),
    )


def _with_pairs(
    z: PairTable, pair: Ints, n: Floats, reward: Floats, row: Ints, successor: Ints, count: Floats, ended: Floats
) -> PairTable:
    """The table of one MDP with more pairs."""
    pairs = np.concatenate([z.pair, pair])
    order = np.argsort(pairs)
    rows = np.argsort(order)[np.concatenate([z.transition_row, len(z.pair) + row])]
    by_row = np.argsort(rows, kind="stable")

    def of_pairs(old: Floats, new: Floats) -> Floats:
        return np.concatenate([old, new])[order]

    def of_entries(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        return np.concatenate([old, new])[by_row]

    return replace(
        z,
        pair_mdp=np.zeros(len(pairs), dtype=np.int64),
        pair=pairs[order],
        n_visits=of_pairs(z.n_visits, n),
        reward_sum=of_pairs(z.reward_sum, n * reward),
        reward_square_sum=of_pairs(z.reward_square_sum, n * reward**2),
        duration=of_pairs(z.duration, np.ones(len(pair))),
        n_successors=np.bincount(rows, minlength=len(pairs)),
        successor=of_entries(z.successor, successor),
        transition_count=of_entries(z.transition_count, count),
        n_terminated=of_entries(z.n_terminated, ended * count),
    )
