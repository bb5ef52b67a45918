"""The recycling robot: search with a battery that may run empty."""

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.model.mdp import TabularMDP

SOURCE = "Sutton and Barto (2018), Reinforcement Learning, 2nd edition, example 3.3"
HIGH, LOW = range(2)
WAIT, RECHARGE = 1, 2  # action 0 searches
STAYS_HIGH, STAYS_LOW = 0.7, 0.6


def recycling_robot() -> TabularMDP:
    """Searching pays most, and empties a low battery with probability 0.4: then it is rescued and charged.

    Recharging with a high battery does nothing.
    """

    def outcomes(battery: int, action: int) -> list[Outcome]:
        if action == RECHARGE:
            return [Outcome(1.0, HIGH, 0.0)]
        if action == WAIT:
            return [Outcome(1.0, battery, 1.0)]
        if battery == HIGH:
            return [Outcome(STAYS_HIGH, HIGH, 2.0), Outcome(1 - STAYS_HIGH, LOW, 2.0)]
        return [Outcome(STAYS_LOW, LOW, 2.0), Outcome(1 - STAYS_LOW, HIGH, -3.0)]

    return mdp_from_outcomes(2, 3, outcomes, discount=0.95, start=HIGH)


ENVIRONMENTS = [Environment("recycling-robot", "recycling robot", SOURCE, 50, recycling_robot)]
