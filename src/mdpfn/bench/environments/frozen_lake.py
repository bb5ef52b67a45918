"""The frozen lake of the paper (B.1): the map of Gymnasium's, less slippery, with punished holes."""

import numpy as np

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.grid import MOVES, GridMap, slippery
from mdpfn.model.mdp import TabularMDP

SOURCE = "Brockman et al. (2016), OpenAI Gym, FrozenLake 4x4, with the paper's slip and rewards (B.1)"
MAP = ("S...", ".H.H", "...H", "H..G")


def frozen_lake(*, slip: float = 0.2) -> TabularMDP:
    """The 4 × 4 lake, from the top left to the bottom right corner.

    Actions are up, down, left, right; each goes to either side with probability slip / 2. Rewards are the
    expected ones of the cell entered, so they depend on state and action only. Holes and goal are terminal.
    """
    grid = GridMap.of(MAP)
    entry_reward = np.zeros(len(grid))
    entry_reward[grid.where("H")] = -1.0
    entry_reward[grid.where("G")] = 1.0
    transition = np.zeros((len(grid), len(MOVES), len(grid)))
    for state in range(len(grid)):
        for action in range(len(MOVES)):
            for probability, move in slippery(action, slip):
                transition[state, action, grid.move(state, MOVES[move])] += probability
    return TabularMDP.from_dense(
        transition, transition @ entry_reward, discount=0.95, start=grid.where("S")[0], terminal=grid.where("HG")
    )


ENVIRONMENTS = [Environment("frozen-lake", "frozen lake", SOURCE, 50, frozen_lake)]
