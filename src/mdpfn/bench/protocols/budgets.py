"""The leaderboard with other budgets of episodes, and with rewards in other units."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from mdpfn.bench.environments import Environment
from mdpfn.bench.protocols import leaderboard
from mdpfn.bench.protocols.leaderboard import LeaderboardProtocol
from mdpfn.bench.protocols.methods import Method
from mdpfn.bench.protocols.results import Cell
from mdpfn.model.mdp import TabularMDP

IDENTITY = (*leaderboard.IDENTITY, "budget", "unit")


def cells(
    protocol: LeaderboardProtocol,
    budgets: Sequence[int],
    units: Sequence[float],
    methods: Sequence[Method],
    environments: Sequence[Environment],
) -> list[Cell]:
    """Every method on every environment: with every budget, and with the usual one and rewards in every unit."""
    found = []
    for budget, unit in [*((budget, 1.0) for budget in budgets), *((protocol.episodes, unit) for unit in units)]:
        scaled = [replace(e, build=partial(in_units, e, unit)) for e in environments]
        of_condition = leaderboard.cells(replace(protocol, episodes=budget), methods, scaled)
        found += [replace(cell, identity=(*cell.identity, str(budget), f"{unit:g}")) for cell in of_condition]
    return found


def in_units(environment: Environment, unit: float) -> TabularMDP:
    """The MDP of an environment with all its rewards multiplied by a number."""
    mdp = environment.build()
    return replace(
        mdp, reward=mdp.reward * unit, outcome_reward=mdp.outcome_reward * unit, reward_std=mdp.reward_std * unit
    )
