"""From the outcomes of every pair, as families write them down, to an MDP."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from mdpfn.arrays import Bools, Floats, Ints, offsets_of
from mdpfn.model.mdp import TabularMDP

DISCOUNT = 0.95  # families leave the discount to the composition


def assemble(
    next_state: Ints,
    probability: ArrayLike,
    reward: ArrayLike,
    start: Floats | int,
    terminal: Bools | None = None,
    reward_std: ArrayLike = 0.0,
) -> TabularMDP:
    """The MDP in which pair (s, a) leads to `next_state[s, a, o]` with a probability and a reward for each o.

    `next_state` has the shape (S, A, O); `probability` and `reward` broadcast to it. Outcomes that lead to the same
    state become one with their expected reward. Terminal states absorb and pay nothing, whatever is said of them.
    """
    n_states, n_actions, _ = next_state.shape
    if terminal is None:
        terminal = np.zeros(n_states, dtype=bool)
    probability = np.broadcast_to(np.asarray(probability, dtype=np.float64), next_state.shape)
    if terminal.any():
        ended = terminal[:, None, None]
        next_state = np.where(ended, np.arange(n_states)[:, None, None], next_state)
        reward = np.where(ended, 0.0, reward)
    cell = (np.arange(n_states * n_actions) * n_states).reshape(n_states, n_actions, 1) + next_state
    size = n_states * n_actions * n_states
    mass = np.bincount(cell.reshape(-1), weights=probability.reshape(-1), minlength=size)
    paid = np.bincount(cell.reshape(-1), weights=(probability * reward).reshape(-1), minlength=size)
    stored = np.flatnonzero(mass)
    row_end = offsets_of(np.bincount(stored // n_states, minlength=n_states * n_actions))
    transition = csr_array((mass[stored], stored % n_states, row_end), shape=(n_states * n_actions, n_states))
    std = np.where(terminal[:, None], 0.0, np.broadcast_to(reward_std, (n_states, n_actions)))
    return TabularMDP(
        transition,
        paid.reshape(n_states, n_actions, n_states).sum(axis=-1),
        DISCOUNT,
        start=point_mass(n_states, start) if isinstance(start, int) else start,
        terminal=terminal,
        outcome_reward=paid[stored] / mass[stored],
        reward_std=std,
    )


def point_mass(n_states: int, state: int) -> Floats:
    """(S,) the distribution that always draws `state`."""
    distribution = np.zeros(n_states)
    distribution[state] = 1.0
    return distribution
