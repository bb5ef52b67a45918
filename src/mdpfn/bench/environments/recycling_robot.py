"""The recycling robot: search with a battery that may run empty."""

from __future__ import annotations

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.model.mdp import TabularMDP

SOURCE = "Sutton and Barto (2018), Reinforcement Learning, 2nd edition, example 3.3"
HIGH, LOW = range(2)
SEARCH, WAIT, RECHARGE = range(3)


def recycling_robot(
    *,
    stays_high: float = 0.7,
    stays_low: float = 0.6,
    search_reward: float = 2.0,
    wait_reward: float = 1.0,
    rescue_reward: float = -3.0,
    discount: float = 0.95,
) -> TabularMDP:
    """Searching pays most, and empties a low battery with probability 1 − `stays_low`: then it is rescued and charged.

    Recharging with a high battery does nothing.
    """

    def outcomes(battery: int, action: int) -> list[Outcome]:
        if action == RECHARGE:
            return [Outcome(1.0, HIGH, 0.0)]
        if action == WAIT:
            return [Outcome(1.0, battery, wait_reward)]
        if battery == HIGH:
            return [Outcome(stays_high, HIGH, search_reward), Outcome(1 - stays_high, LOW, search_reward)]
        return [Outcome(stays_low, LOW, search_reward), Outcome(1 - stays_low, HIGH, rescue_reward)]

    return mdp_from_outcomes(2, 3, outcomes, discount=discount, start=HIGH)


ENVIRONMENTS = [Environment("recycling-robot", "recycling robot", SOURCE, 50, recycling_robot)]
