"""The deterministic grid of the paper (B.1)."""

from __future__ import annotations

from functools import partial

import numpy as np

from mdpfn.environments.base import Environment
from mdpfn.environments.grid import MOVES, neighbour
from mdpfn.mdp import TabularMDP

SOURCE = "Sutton and Barto (2018), Reinforcement Learning: An Introduction, section 3.5, with the paper's rewards (B.1)"


def gridworld(size: int, *, step_reward: float = -1.0, goal_reward: float = 10.0, discount: float = 0.95) -> TabularMDP:
    """The `size` × `size` grid, from the top left to the bottom right corner.

    Actions are up, down, left, right; a move off the grid stays in place. Every step pays `step_reward`, the
    one into the goal `goal_reward` on top. The goal is terminal.
    """
    n_states, n_actions = size * size, len(MOVES)
    goal = n_states - 1
    transition = np.zeros((n_states, n_actions, n_states))
    reward = np.full((n_states, n_actions), step_reward)
    for state in range(n_states):
        for action in range(n_actions):
            next_state = neighbour(state, action, size, size)
            transition[state, action, next_state] = 1.0
            reward[state, action] += goal_reward * (next_state == goal)
    return TabularMDP.from_dense(transition, reward, discount=discount, start=0, terminal=[goal])


ENVIRONMENTS = [
    Environment(f"gridworld-{size}x{size}", "gridworld", SOURCE, 50, partial(gridworld, size)) for size in (3, 5)
]
