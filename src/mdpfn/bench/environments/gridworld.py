"""The deterministic grid of the paper (B.1)."""

from functools import partial

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.grid import MOVES, GridMap
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.model.mdp import TabularMDP

SOURCE = "Sutton and Barto (2018), Reinforcement Learning, 2nd edition, ch. 3 and 4, with the paper's rewards (B.1)"


def gridworld(size: int) -> TabularMDP:
    """The `size` × `size` grid, from the top left to the bottom right corner.

    Actions are up, down, left, right; a move off the grid stays in place. Every step pays −1, the one into
    the goal 10 on top. The goal is terminal.
    """
    grid = GridMap.of(["." * size] * size)
    goal = len(grid) - 1

    def outcomes(state: int, action: int) -> list[Outcome]:
        next_state = grid.move(state, MOVES[action])
        return [Outcome(1.0, next_state, -1.0 + 10.0 * (next_state == goal))]

    return mdp_from_outcomes(len(grid), len(MOVES), outcomes, discount=0.95, start=0, terminal=[goal])


ENVIRONMENTS = [
    Environment(f"gridworld-{size}x{size}", "gridworld", SOURCE, 50, partial(gridworld, size)) for size in (3, 5, 8)
]
