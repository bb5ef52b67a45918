"""A queue that may turn customers away, and one that may work faster."""

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.model.mdp import TabularMDP

REJECT, ADMIT = range(2)
CAPACITY = 10
SPEEDS = ((0.2, 0.0), (0.5, 1.0), (0.8, 4.0))  # probability of finishing a customer in a step, and what it costs


def admission_control() -> TabularMDP:
    """States count the customers, twice: the second half has one more at the door.

    Admitting pays 5, every customer inside costs 0.3 a step. Then the served one leaves with probability 0.4
    and a new one comes to the door with probability 0.5. Whoever finds the queue full is lost.
    """
    n_lengths = CAPACITY + 1

    def outcomes(state: int, action: int) -> list[Outcome]:
        at_door, length = divmod(state, n_lengths)
        admitted = bool(at_door) and action == ADMIT and length < CAPACITY
        length += admitted
        reward = 5.0 * admitted - 0.3 * length
        served = 0.4 if length > 0 else 0.0
        return [
            Outcome(p_leave * p_come, length - leave + n_lengths * come, reward)
            for leave, p_leave in ((1, served), (0, 1 - served))
            for come, p_come in ((1, 0.5), (0, 0.5))
        ]

    return mdp_from_outcomes(2 * n_lengths, 2, outcomes, discount=0.95, start=0)


def service_control() -> TabularMDP:
    """States count the customers, each of which costs 1 a step; actions are slow, medium and fast service.

    In a step the served customer leaves with the probability of the speed, and one arrives with 0.4.
    """

    def outcomes(length: int, action: int) -> list[Outcome]:
        speed, cost = SPEEDS[action]
        served = speed if length > 0 else 0.0
        reward = -1.0 * length - cost
        return [
            Outcome(p_leave * p_come, min(length - leave + come, CAPACITY), reward)
            for leave, p_leave in ((1, served), (0, 1 - served))
            for come, p_come in ((1, 0.4), (0, 0.6))
        ]

    return mdp_from_outcomes(CAPACITY + 1, len(SPEEDS), outcomes, discount=0.95, start=0)


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
