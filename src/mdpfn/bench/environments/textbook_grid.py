"""Two small grids whose optimal values are printed in textbooks."""

import numpy as np

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.grid import MOVES, GridMap, slippery
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.model.mdp import TabularMDP

RUSSELL_NORVIG_MAP = ("...+", ".#.-", "S...")
TELEPORTS = {1: (21, 10.0), 3: (13, 5.0)}  # from A to A' and from B to B', with what they pay


def russell_norvig_grid(*, discount: float = 0.99) -> TabularMDP:
    """4 × 3 cells with one wall; every step pays −0.04, the terminal + and − pay 1 and −1 on top when entered.

    A move goes to either side with probability 0.1.
    """
    grid = GridMap.of(RUSSELL_NORVIG_MAP)
    entry_reward = {"+": 1.0, "-": -1.0}

    def outcomes(state: int, action: int) -> list[Outcome]:
        result = []
        for probability, move in slippery(action, 0.2):
            next_state = grid.move(state, MOVES[move])
            result.append(Outcome(probability, next_state, entry_reward.get(grid.characters[next_state], 0.0) - 0.04))
        return result

    (start,) = grid.where("S")
    return mdp_from_outcomes(len(grid), len(MOVES), outcomes, discount=discount, start=start, terminal=grid.where("+-"))


def teleport_grid() -> TabularMDP:
    """5 × 5 cells; any action in A pays 10 and leads to A', in B 5 and to B'; bumping into the edge costs 1.

    It never ends; episodes start anywhere.
    """
    grid = GridMap.of(["." * 5] * 5)

    def outcomes(state: int, action: int) -> list[Outcome]:
        if state in TELEPORTS:
            return [Outcome(1.0, *TELEPORTS[state])]
        next_state = grid.move(state, MOVES[action])
        return [Outcome(1.0, next_state, -1.0 * (next_state == state))]

    return mdp_from_outcomes(len(grid), len(MOVES), outcomes, discount=0.9, start=np.full(len(grid), 1 / len(grid)))


ENVIRONMENTS = [
    Environment(
        "russell-norvig-grid", "textbook grid",
        "Russell and Norvig (2010), Artificial Intelligence: A Modern Approach, 3rd edition, sec. 17.1", 50,
        russell_norvig_grid,
    ),
    Environment(
        "teleport-grid", "textbook grid",
        "Sutton and Barto (2018), Reinforcement Learning, 2nd edition, examples 3.5 and 3.8", 50, teleport_grid,
    ),
]  # fmt: skip
