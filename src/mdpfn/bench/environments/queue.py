"""A queue that may turn customers away, and one that may work faster."""

from __future__ import annotations

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.model.mdp import TabularMDP

REJECT, ADMIT = range(2)
SPEEDS = ((0.2, 0.0), (0.5, 1.0), (0.8, 4.0))  # probability of finishing a customer in a step, and what it costs


def admission_control(
    capacity: int = 10,
    *,
    arrival: float = 0.5,
    service: float = 0.4,
    admission_reward: float = 5.0,
    waiting_cost: float = 0.3,
    discount: float = 0.95,
) -> TabularMDP:
    """States count the customers, twice: the second half has one more at the door.

    Admitting pays 5, every customer inside costs 0.3 a step. Then the served one leaves with probability `service`
    and a new one comes to the door with probability `arrival`. Whoever finds the queue full is lost.
    """
    n_lengths = capacity + 1

    def outcomes(state: int, action: int) -> list[Outcome]:
        at_door, length = divmod(state, n_lengths)
        admitted = bool(at_door) and action == ADMIT and length < capacity
        length += admitted
        reward = admission_reward * admitted - waiting_cost * length
        served = service if length > 0 else 0.0
        return [
            Outcome(p_leave * p_come, length - leave + n_lengths * come, reward)
            for leave, p_leave in ((1, served), (0, 1 - served))
            for come, p_come in ((1, arrival), (0, 1 - arrival))
        ]

    return mdp_from_outcomes(2 * n_lengths, 2, outcomes, discount=discount, start=0)


def service_control(
    capacity: int = 10, *, arrival: float = 0.4, waiting_cost: float = 1.0, discount: float = 0.95
) -> TabularMDP:
    """States count the customers, each of which costs 1 a step; actions are slow, medium and fast service.

    In a step the served customer leaves with the probability of the speed, and one arrives with `arrival`.
    """

    def outcomes(length: int, action: int) -> list[Outcome]:
        speed, cost = SPEEDS[action]
        served = speed if length > 0 else 0.0
        reward = -waiting_cost * length - cost
        return [
            Outcome(p_leave * p_come, min(length - leave + come, capacity), reward)
            for leave, p_leave in ((1, served), (0, 1 - served))
            for come, p_come in ((1, arrival), (0, 1 - arrival))
        ]

    return mdp_from_outcomes(capacity + 1, len(SPEEDS), outcomes, discount=discount, start=0)


ENVIRONMENTS = [
    Environment(
        "queue-admission", "queue", "Naor (1969); Puterman (1994), Markov Decision Processes, sec. 3.7.1", 100,
        admission_control,
    ),
    Environment(
        "queue-service", "queue", "Crabill (1972); Puterman (1994), Markov Decision Processes, sec. 3.7.2",
        100, service_control,
    ),
]  # fmt: skip
