"""The leaderboard with other budgets of episodes, and with rewards in other units."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from mdpfn.bench.environments import Environment
from mdpfn.bench.protocols import leaderboard
from mdpfn.bench.protocols.leaderboard import LeaderboardProtocol
from mdpfn.bench.protocols.methods import Method
from mdpfn.bench.protocols.results import Cell
from mdpfn.model.mdp import TabularMDP

IDENTITY = (*leaderboard.IDENTITY, "budget", "unit")


@dataclass(frozen=True)
class Condition:
    """The budget of episodes that agents are given, and the factor of all rewards."""

    budget: int
    unit: float = 1.0


def conditions(episodes: int, budgets: Sequence[int], units: Sequence[float]) -> list[Condition]:
    """Every budget as it is, and the usual number of episodes in every unit."""
    return [Condition(budget) for budget in budgets] + [Condition(episodes, unit) for unit in units]


def cells(
    seeds: int, wanted: Sequence[Condition], methods: Sequence[Method], environments: Sequence[Environment]
) -> list[Cell]:
    """Every method on every environment under every condition."""
    found = []
    for condition in wanted:
        scaled = [replace(e, build=partial(in_units, e, condition.unit)) for e in environments]
        of_condition = leaderboard.cells(LeaderboardProtocol(condition.budget, seeds), methods, scaled)
        names = str(condition.budget), f"{condition.unit:g}"
        found += [replace(cell, identity=(*cell.identity, *names)) for cell in of_condition]
    return found


def in_units(environment: Environment, unit: float) -> TabularMDP:
    """The MDP of an environment with all its rewards multiplied by a number."""
    mdp = environment.build()
    return replace(
        mdp, reward=mdp.reward * unit, outcome_reward=mdp.outcome_reward * unit, reward_std=mdp.reward_std * unit
    )
