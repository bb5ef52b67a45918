"""Windy grid: a crosswind blows upwards, harder in the middle."""

from functools import partial

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.grid import MOVES
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.model.mdp import TabularMDP

BOOK = "Sutton and Barto (2018), Reinforcement Learning, 2nd edition"
WIND = (0, 0, 0, 1, 1, 1, 2, 2, 1, 0)
N_ROWS, START, GOAL = 7, (3, 0), (3, 7)
KING_MOVES = (*MOVES, (-1, -1), (-1, 1), (1, -1), (1, 1))


def windy_grid(moves: tuple[tuple[int, int], ...] = MOVES, *, gusts: bool = False) -> TabularMDP:
    """7 × 10 cells, from (3, 0) to the terminal (3, 7); every step pays −1 and drifts up by the wind of its column.

    With `gusts`, wind that blows at all is one stronger or one weaker with probability 1/3 each.
    """
    n_columns = len(WIND)

    def outcomes(state: int, action: int) -> list[Outcome]:
        row, column = divmod(state, n_columns)
        drifts = [WIND[column]]
        if gusts and WIND[column] > 0:
            drifts = [WIND[column] - 1, WIND[column], WIND[column] + 1]
        result = []
        for drift in drifts:
            next_row = min(max(row + moves[action][0] - drift, 0), N_ROWS - 1)
            next_column = min(max(column + moves[action][1], 0), n_columns - 1)
            result.append(Outcome(1 / len(drifts), next_row * n_columns + next_column, -1.0))
        return result

    start, goal = (row * n_columns + column for row, column in (START, GOAL))
    return mdp_from_outcomes(N_ROWS * n_columns, len(moves), outcomes, discount=0.95, start=start, terminal=[goal])


ENVIRONMENTS = [
    Environment("windy-grid", "windy grid", f"{BOOK}, example 6.5", 200, windy_grid),
    Environment("windy-grid-king", "windy grid", f"{BOOK}, exercise 6.9", 100, partial(windy_grid, KING_MOVES)),
    Environment(
        "windy-grid-gusts", "windy grid", f"{BOOK}, exercise 6.10", 100, partial(windy_grid, KING_MOVES, gusts=True)
    ),
]
