"""MDPs from the outcomes of every pair, the way textbooks describe them."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import pdtr

from mdpfn.arrays import Floats, offsets_of
from mdpfn.model.mdp import TabularMDP


class Outcome(NamedTuple):
    """A possible outcome of an action."""

    probability: float
    next_state: int
    reward: float


def mdp_from_outcomes(
    n_states: int, n_actions: int, outcomes: Callable[[int, int], Iterable[Outcome]], **rest: Any
) -> TabularMDP:
    """The MDP in which `outcomes(state, action)` may happen; `rest` goes to `TabularMDP.from_sparse`.

    Outcomes that lead to the same state become one, with their expected reward.
    """
    lengths, columns, probabilities, rewards = [], [], [], []
    for state in range(n_states):
        for action in range(n_actions):
            merged: dict[int, list[float]] = {}
            for probability, next_state, reward in outcomes(state, action):
                if probability > 0:
                    entry = merged.setdefault(next_state, [0.0, 0.0])
                    entry[0] += probability
                    entry[1] += probability * reward
            lengths.append(len(merged))
            for next_state in sorted(merged):
                probability, weighted = merged[next_state]
                columns.append(next_state)
                probabilities.append(probability)
                rewards.append(weighted / probability)
    transition = csr_array((probabilities, columns, offsets_of(np.array(lengths))), shape=(len(lengths), n_states))
    return TabularMDP.from_sparse(transition, n_actions, outcome_reward=rewards, **rest)


def poisson_probabilities(mean: float, largest: int) -> Floats:
    """(largest + 1,) P(0), …, P(largest) of a Poisson number, all that is larger counted as the largest."""
    at_most = pdtr(np.arange(largest), mean)
    return np.diff(at_most, prepend=0.0, append=1.0)
