"""The table of pairs as slip foretells it: pairs count more than their visits, and may lead where they did not yet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mdpfn.arrays import sums_by
from mdpfn.evidence import PairTable
from mdpfn.exploration.slip import Slip

MOST_TOLD = 1 - 1e-9  # of where a pair leads; the rest nobody knows
LEAST_SHARE = 0.01  # of the visits of a pair; what is less probable and was not seen is left out


def foretold(z: PairTable, slip: Slip) -> PairTable:
    """The table of one MDP with what slip says of visited pairs added to their visits.

    It counts as many visits as it is worth, but no more than were made in the state, and than the odds that it says
    where the pair leads. Untried pairs are not foretold: where they lead is hardly ever known before.
    """
    if not slip.visits or not len(z.pair):
        return z
    n_states, n_actions, entry = int(z.n_states[0]), int(z.n_actions[0]), z.transition_row
    seen, known = z.state[entry] * n_states + z.successor, slip.state * n_states + slip.successor
    place = np.union1d(seen, known)  # where some action led from a state
    state, successor = place // n_states, place % n_states
    at, action = np.searchsorted(place, seen), z.action[entry]
    count, ended, share = np.zeros((3, len(place), n_actions))
    count[at, action], ended[at, action] = z.transition_count, z.n_terminated
    share[np.searchsorted(place, known)] = slip.share

    begins = np.append(True, state[1:] != state[:-1])
    first, owner = np.flatnonzero(begins), np.cumsum(begins) - 1
    n_visits = np.add.reduceat(count, first, axis=0)
    told = np.minimum(np.add.reduceat(share, first, axis=0), MOST_TOLD)
    worth = np.minimum(slip.visits, n_visits.sum(axis=1, keepdims=True))
    worth = np.where(n_visits > 0, np.minimum(worth, told / (1 - told)), 0.0)
    added = worth[owner] * share
    added[(count == 0) & (added < LEAST_SHARE * (n_visits + worth)[owner])] = 0.0
    arrivals = sums_by(z.successor, z.transition_count, n_states)
    ends = sums_by(z.successor, z.n_terminated, n_states) / np.where(arrivals > 0, arrivals, 1.0)

    row, column = np.nonzero(count + added)
    order = np.lexsort((successor[row], column, state[row]))
    row, column = row[order], column[order]
    n_successors = np.bincount(np.searchsorted(z.pair, state[row] * n_actions + column), minlength=len(z.pair))
    pair_of = np.repeat(np.arange(len(z.pair)), n_successors)
    count, added = (count + added)[row, column], added[row, column]
    total = sums_by(pair_of, count, len(z.pair))
    if np.isnan(slip.reward).any():  # a reward belongs to its pair
        more, more_squares = ((total - z.n_visits) * s / z.n_visits for s in (z.reward_sum, z.reward_square_sum))
    else:
        paid = np.zeros(len(place))
        paid[np.searchsorted(place, known)] = slip.reward
        more, more_squares = (sums_by(pair_of, added * paid[row] ** power, len(z.pair)) for power in (1, 2))
    return replace(
        z,
        n_visits=total,
        reward_sum=z.reward_sum + more,
        reward_square_sum=z.reward_square_sum + more_squares,
        n_successors=n_successors,
        successor=successor[row],
        transition_count=count,
        n_terminated=np.minimum(ended[row, column] + added * ends[successor[row]], count),
    )
