"""Jack's car rental: two places, cars moved over night, in a size that fits small tables."""

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.outcomes import poisson_probabilities
from mdpfn.model.mdp import TabularMDP

SOURCE = "Sutton and Barto (2018), Reinforcement Learning, 2nd edition, example 4.2, with fewer cars"
RENTAL_PRICE, MOVING_COST = 10.0, 2.0
MAX_CARS, MAX_MOVED = 5, 2
REQUESTS, RETURNS = (1.5, 2.0), (1.5, 1.0)  # a day, by place


def car_rental() -> TabularMDP:
    """Cars at both places in the evening; action a moves a − `MAX_MOVED` of them from the first to the second.

    Moving costs 2 a car, a rented one earns 10; requests and returns are Poisson, and cars beyond `MAX_CARS` leave.
    Cars that are not there are neither moved nor paid for.
    """
    n = MAX_CARS + 1
    days = [one_day(*rates) for rates in zip(REQUESTS, RETURNS, strict=True)]
    n_actions = 2 * MAX_MOVED + 1
    transition = np.zeros((n * n, n_actions, n * n))
    reward = np.zeros((n * n, n_actions))
    for first in range(n):
        for second in range(n):
            for action in range(n_actions):
                moved = min(max(action - MAX_MOVED, -second), first)
                morning = (min(first - moved, MAX_CARS), min(second + moved, MAX_CARS))
                (p_first, rented_first), (p_second, rented_second) = (
                    (day[0][cars], day[1][cars]) for day, cars in zip(days, morning, strict=True)
                )
                transition[first * n + second, action] = np.outer(p_first, p_second).reshape(-1)
                reward[first * n + second, action] = RENTAL_PRICE * (rented_first + rented_second) - MOVING_COST * abs(
                    moved
                )
    return TabularMDP.from_dense(transition, reward, discount=0.9, start=np.full(n * n, 1 / n**2))


def one_day(request_rate: float, return_rate: float) -> tuple[Floats, Floats]:
    """One place: (n, n) P(cars in the evening | cars in the morning) and (n,) expected cars rented."""
    n = MAX_CARS + 1
    evening, rented = np.zeros((n, n)), np.zeros(n)
    for morning in range(n):
        for cars, probability in enumerate(poisson_probabilities(request_rate, morning)):
            left = morning - cars
            rented[morning] += probability * cars
            evening[morning, left:] += probability * poisson_probabilities(return_rate, MAX_CARS - left)
    return evening, rented


ENVIRONMENTS = [Environment("car-rental", "car rental", SOURCE, 50, car_rental)]
