"""Four rooms and mazes: one goal, walls in between."""

from functools import partial

import numpy as np

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.grid import MOVES, GridMap
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.model.mdp import TabularMDP

FOUR_ROOMS = (
    "#############",
    "#S    #     #",
    "#     #     #",
    "#           #",
    "#     #     #",
    "#     #     #",
    "## ####     #",
    "#     ### ###",
    "#     #     #",
    "#     #     #",
    "#           #",
    "#     #    G#",
    "#############",
)
DYNA_MAZE = (
    "       #G",
    "  #    # ",
    "S #    # ",
    "  #      ",
    "     #   ",
    "         ",
)


def maze(rows: tuple[str, ...], *, slip: float = 0.0, discount: float = 0.95) -> TabularMDP:
    """The maze drawn by `rows`, from S to the terminal G, which pays 1 when entered.

    Actions are up, down, left, right; with probability `slip` one of the other three happens.
    """
    grid = GridMap.of(rows)
    (goal,) = grid.where("G")

    def outcomes(state: int, action: int) -> list[Outcome]:
        result = []
        for move, step in enumerate(MOVES):
            next_state = grid.move(state, step)
            probability = 1 - slip if move == action else slip / (len(MOVES) - 1)
            result.append(Outcome(probability, next_state, 1.0 * (next_state == goal)))
        return result

    (start,) = grid.where("S")
    return mdp_from_outcomes(len(grid), len(MOVES), outcomes, discount=discount, start=start, terminal=[goal])


def carved_maze(size: int, seed: int) -> tuple[str, ...]:
    """A maze of `size` × `size` rooms with exactly one path between any two, carved by a random depth-first search."""
    rng = np.random.default_rng(seed)
    picture = np.full((2 * size - 1, 2 * size - 1), "#")
    picture[0, 0] = "S"
    path = [(0, 0)]
    while path:
        row, column = path[-1]
        options = [
            (row + 2 * down, column + 2 * right)
            for down, right in MOVES
            if 0 <= row + 2 * down < len(picture)
            and 0 <= column + 2 * right < len(picture)
            and picture[row + 2 * down, column + 2 * right] == "#"
        ]
        if not options:
            path.pop()
            continue
        target = options[rng.integers(len(options))]
        picture[(row + target[0]) // 2, (column + target[1]) // 2] = " "
        picture[target] = " "
        path.append(target)
    picture[-1, -1] = "G"
    return tuple("".join(line) for line in picture)


ENVIRONMENTS = [
    Environment(
        "four-rooms", "four rooms",
        "Sutton, Precup and Singh (1999), Between MDPs and semi-MDPs, rooms example, with the goal in the far corner",
        200, partial(maze, FOUR_ROOMS, slip=1 / 3, discount=0.99),
    ),
    Environment(
        "dyna-maze", "maze", "Sutton and Barto (2018), Reinforcement Learning, 2nd edition, example 8.1",
        200, partial(maze, DYNA_MAZE, discount=0.95),
    ),
    Environment(
        "carved-maze-4", "maze", "Random depth-first search, e.g. Buck (2015), Mazes for Programmers, ch. 5",
        100, partial(maze, carved_maze(4, seed=0), slip=0.1, discount=0.95),
    ),
    Environment(
        "carved-maze-6", "maze", "Random depth-first search, e.g. Buck (2015), Mazes for Programmers, ch. 5",
        200, partial(maze, carved_maze(6, seed=0), discount=0.99),
    ),
]  # fmt: skip
