"""The table of pairs as slip foretells it: pairs count more than their visits, and may lead where they did not yet."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints, sums_by
from mdpfn.evidence import PairTable
from mdpfn.evidence.pooling import pooled
from mdpfn.planners.slip import Slip

MOST_TOLD = 1 - 1e-9  # of where a pair leads; the rest nobody knows
LEAST_SHARE = 0.01  # of the visits of a pair; what is less probable and was not seen is left out


def told(observed: PairTable) -> PairTable:
    """The table of one MDP as planners read it: equal shares are pooled, and what slip foretells is added."""
    z = pooled(observed)
    return foretold(z, Slip.of(z, observed))


def foretold(z: PairTable, slip: Slip) -> PairTable:
    """The table of one MDP with what slip says of visited pairs added to their visits.

    It counts as many visits as it is worth, but no more than were made in the state, and than the odds that it says
    where the pair leads. Untried pairs are not foretold: where they lead is hardly ever known before.
    """
    if not slip.visits or not len(z.pair):
        return z
    known = z.structure.get(__name__)
    if known is None or known.slip is not slip.share:
        known = z.structure[__name__] = _Ways.of(z, slip)
    worth = np.minimum(slip.visits, sums_by(known.owner, z.n_visits)[known.owner])
    worth = np.minimum(worth, known.odds)
    added, count = worth[known.row] * known.share, np.zeros(len(known.row))
    count[known.seen] = z.transition_count
    added[(count == 0) & (added < LEAST_SHARE * (z.n_visits + worth)[known.row])] = 0.0
    count += added
    there = count > 0
    table, row, added, count = known.table(z, there), known.row[there], added[there], count[there]
    ended = np.zeros(len(there))
    ended[known.seen] = z.n_terminated
    ended = ended[there]
    if ended.any():
        arrivals = sums_by(z.successor, z.transition_count, int(z.n_states[0]))
        ends = sums_by(z.successor, z.n_terminated, len(arrivals)) / np.where(arrivals > 0, arrivals, 1.0)
        ended = np.minimum(ended + added * ends[table.successor], count)
    total = sums_by(row, count, len(z.pair))
    if np.isnan(slip.reward).any():  # a reward belongs to its pair
        more, more_squares = ((total - z.n_visits) * s / z.n_visits for s in (z.reward_sum, z.reward_square_sum))
    else:
        more, more_squares = (sums_by(row, added * known.paid[there] ** n, len(z.pair)) for n in (1, 2))
    return table.with_numbers(
        n_visits=total,
        reward_sum=z.reward_sum + more,
        reward_square_sum=z.reward_square_sum + more_squares,
        transition_count=count,
        n_terminated=ended,
        reward_scale=z.reward_scale,
    )


@dataclass(eq=False)
class _Ways:
    """Where pairs of a structure led or may lead, pair after pair, and what slip says of that."""

    slip: Floats  # the shares that it was made of
    owner: Ints  # (visited,) the number of the state of each pair, among those
    odds: Floats  # (visited,) that slip says where the pair leads
    row: Ints  # (places,) the pair
    successor: Ints  # (places,)
    seen: Ints  # (observed,) the place of each transition of the table
    share: Floats  # (places,) P(s' | s, a)
    paid: Floats  # (places,) what arriving pays
    last: tuple[Bools, PairTable] | None = None  # the places that the last table had, and that table

    @classmethod
    def of(cls, z: PairTable, slip: Slip) -> _Ways:
        """Of the structure of this table."""
        n_states, n_actions = int(z.n_states[0]), int(z.n_actions[0])
        entry = z.state[z.transition_row] * n_states + z.successor
        known = slip.state * n_states + slip.successor
        place = np.union1d(entry, known)  # where some action led from a state
        share, paid = np.zeros((len(place), n_actions)), np.zeros(len(place))
        share[np.searchsorted(place, known)], paid[np.searchsorted(place, known)] = slip.share, slip.reward
        begins = np.flatnonzero(np.append(True, np.diff(place // n_states) > 0))
        state = place[begins] // n_states
        owner = np.searchsorted(state, z.state)
        sums = np.minimum(np.add.reduceat(share, begins, axis=0)[owner, z.action], MOST_TOLD)
        n_places = np.diff(begins, append=len(place))[owner]
        row = np.repeat(np.arange(len(z.pair)), n_places)
        at = np.arange(len(row)) + np.repeat(begins[owner] - np.cumsum(n_places) + n_places, n_places)
        seen = np.searchsorted(row * len(place) + at, z.transition_row * len(place) + np.searchsorted(place, entry))
        return cls(
            slip=slip.share,
            owner=owner,
            odds=sums / (1 - sums),
            row=row,
            successor=place[at] % n_states,
            seen=seen,
            share=share[at, z.action[row]],
            paid=paid[at],
        )

    def table(self, z: PairTable, there: Bools) -> PairTable:
        """A table with these places, of the structure of the last one if they are the same; without its numbers."""
        if self.last is None or not np.array_equal(self.last[0], there):
            successor = self.successor[there]
            wider = replace(
                z,
                duration=np.ones(len(z.pair)),
                n_successors=np.bincount(self.row[there], minlength=len(z.pair)),
                successor=successor,
                transition_count=np.zeros(len(successor)),
                n_terminated=np.zeros(len(successor)),
            )
            self.last = there, wider
        return self.last[1]
