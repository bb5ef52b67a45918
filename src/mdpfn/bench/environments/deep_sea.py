"""DeepSea: one treasure, and exactly one sequence of actions that finds it."""

from functools import partial

import numpy as np

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.model.mdp import TabularMDP

SOURCE = "Osband et al. (2020), Behaviour suite for reinforcement learning, deep sea; Osband et al. (2019), JMLR 20"


def deep_sea(depth: int) -> TabularMDP:
    """A `depth` × `depth` grid that is sunk through row by row, going left or right on the way.

    Right costs 0.01 / depth a step and pays 1 in the bottom right corner; which action is right differs from cell
    to cell. The last state is the sea floor.
    """
    right_action = np.random.default_rng(0).integers(2, size=(depth, depth))
    floor = depth * depth

    def outcomes(state: int, action: int) -> list[Outcome]:
        if state == floor:
            return [Outcome(1.0, floor, 0.0)]
        row, column = divmod(state, depth)
        goes_right = action == right_action[row, column]
        next_column = min(column + 1, depth - 1) if goes_right else max(column - 1, 0)
        treasure = goes_right and row == depth - 1 and column == depth - 1
        next_state = floor if row == depth - 1 else (row + 1) * depth + next_column
        return [Outcome(1.0, next_state, treasure - 0.01 / depth * goes_right)]

    return mdp_from_outcomes(floor + 1, 2, outcomes, discount=0.99, start=0, terminal=[floor])


ENVIRONMENTS = [
    Environment(f"deep-sea-{depth}", "deep sea", SOURCE, depth, partial(deep_sea, depth)) for depth in (6, 10)
]
