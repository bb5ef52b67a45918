"""The frozen lake of the paper (B.1): the map of Gymnasium's, less slippery, with punished holes."""

from __future__ import annotations

import numpy as np

from mdpfn.environments.base import Environment
from mdpfn.environments.grid import MOVES, PERPENDICULAR, neighbour
from mdpfn.mdp import TabularMDP

SOURCE = "Brockman et al. (2016), OpenAI Gym, FrozenLake 4x4, with the paper's slip and rewards (B.1)"
SIZE = 4
HOLES = (5, 7, 11, 12)
GOAL = 15


def frozen_lake(
    *, slip: float = 0.2, hole_reward: float = -1.0, goal_reward: float = 1.0, discount: float = 0.95
) -> TabularMDP:
    """The 4 × 4 lake, from the top left to the bottom right corner.

    A move goes where it should with probability 1 − slip and to each side with slip / 2. Rewards are the
    expected ones of the cell entered, so they depend on state and action only. Holes and goal are terminal.
    """
    n_states, n_actions = SIZE * SIZE, len(MOVES)
    entry_reward = np.zeros(n_states)
    entry_reward[list(HOLES)] = hole_reward
    entry_reward[GOAL] = goal_reward
    transition = np.zeros((n_states, n_actions, n_states))
    for state in range(n_states):
        for action in range(n_actions):
            left, right = PERPENDICULAR[action]
            for move, probability in ((action, 1 - slip), (left, slip / 2), (right, slip / 2)):
                transition[state, action, neighbour(state, move, SIZE, SIZE)] += probability
    return TabularMDP.from_dense(
        transition, transition @ entry_reward, discount=discount, start=0, terminal=[*HOLES, GOAL]
    )


ENVIRONMENTS = [Environment("frozen-lake", "frozen lake", SOURCE, 50, frozen_lake)]
