"""The gambler's problem: stake on an unfair coin until broke or at the goal."""

from functools import partial

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.model.mdp import TabularMDP

SOURCE = "Sutton and Barto (2018), Reinforcement Learning, 2nd edition, example 4.3 and exercise 4.9"


def gambler(goal: int, *, heads: float = 0.25, discount: float = 0.99) -> TabularMDP:
    """Capital 0 to `goal`, both terminal; action a stakes a + 1, or all that is there or needed if that is less.

    Reaching the goal pays 1. Episodes start with any capital in between.
    """

    def outcomes(capital: int, action: int) -> list[Outcome]:
        stake = min(action + 1, capital, goal - capital)
        won, lost = capital + stake, capital - stake
        return [Outcome(heads, won, 1.0 * (won == goal and stake > 0)), Outcome(1 - heads, lost, 0.0)]

    start = [0.0, *[1 / (goal - 1)] * (goal - 1), 0.0]
    return mdp_from_outcomes(goal + 1, goal // 2, outcomes, discount=discount, start=start, terminal=[0, goal])


ENVIRONMENTS = [Environment(f"gambler-{goal}", "gambler", SOURCE, 200, partial(gambler, goal)) for goal in (16, 100)]
