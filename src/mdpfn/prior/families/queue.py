"""Waiting lines: whom to admit, how fast to serve, where to send.

Call centres, job schedulers, road junctions and clinics hold a number that goes up with arrivals and down with
service. Waiting costs, turning people away costs, working fast costs.
"""

import numpy as np

from mdpfn.model.mdp import TabularMDP
from mdpfn.prior.assembly import assemble
from mdpfn.prior.draws import coin, whole
from mdpfn.prior.sizes import log_uniform


def sample_queue(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """One line with a rate of arrival and service per action, or several lines to choose from."""
    return (_routing if n_states >= 6 and coin(rng, 0.3) else _single)(rng, n_states, n_actions)


def _single(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """A line of at most S − 1; an action sets the chance that one joins and the chance that one leaves in a step.

    Control is over admission or price (arrival and revenue per customer), over service (speed and its cost), or both.
    """
    arrival, service = rng.uniform(0.1, 0.9), rng.uniform(0.1, 0.9)
    up, down = np.full(n_actions, arrival), np.full(n_actions, service)
    revenue, running_cost = np.full(n_actions, rng.random() * float(coin(rng, 0.5))), np.zeros(n_actions)
    control = rng.random()
    if control < 0.6:
        up = arrival * np.linspace(float(coin(rng, 0.3)) * 0.2, 1.0, n_actions) ** log_uniform(rng, 0.5, 2.0)
        revenue = log_uniform(rng, 0.3, 3.0) * (1 + rng.random() * np.linspace(1, 0, n_actions))
    if control > 0.4:
        speed = np.sort(rng.random(n_actions))
        down = service * speed
        running_cost = log_uniform(rng, 0.05, 2.0) * speed ** log_uniform(rng, 0.7, 3.0)
    length = np.arange(n_states)[:, None]
    full, empty = length == n_states - 1, length == 0
    joins, leaves = up * (1 - down * ~empty), down * (1 - up) * ~empty
    turned_away = rng.random() * float(coin(rng, 0.5))
    joined_pay = np.where(full, -turned_away, revenue)
    waiting = log_uniform(rng, 0.1, 3.0) * (length / (n_states - 1)) ** log_uniform(rng, 0.7, 2.5)
    after = np.concatenate([np.minimum(length + 1, n_states - 1), np.maximum(length - 1, 0), length], axis=1)
    next_state = after[:, None, :].repeat(n_actions, axis=1)
    probability = np.stack([joins, leaves, 1 - joins - leaves], axis=-1)
    reward = np.stack([joined_pay, np.zeros_like(joined_pay), np.zeros_like(joined_pay)], axis=-1)
    reward = reward - (waiting + running_cost)[:, :, None]
    return assemble(next_state, probability, reward, int(rng.integers(n_states)) if coin(rng, 0.5) else 0)


def _routing(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """Two lines of different speed; an action sends who arrives to one of them or, if there are three, away."""
    first = whole(rng, 2, n_states // 2)
    second = n_states // first
    n_actions = min(n_actions, 3)
    a, b = np.divmod(np.arange(first * second), second)
    event = rng.dirichlet(np.ones(3) * 3)  # an arrival, an end of service in the first line, one in the second
    served = (np.maximum(a - 1, 0) * second + b, a * second + np.maximum(b - 1, 0))
    sent = (np.minimum(a + 1, first - 1) * second + b, a * second + np.minimum(b + 1, second - 1), a * second + b)
    lost = (a == first - 1, b == second - 1, np.ones(len(a), dtype=bool))
    next_state = np.stack([np.stack([sent[x], *served], axis=-1) for x in range(n_actions)], axis=1)
    loss, revenue = log_uniform(rng, 0.2, 5.0), rng.random(2) * float(coin(rng, 0.5))
    reward = np.zeros(next_state.shape)
    for x in range(n_actions):
        reward[:, x, 0] = np.where(lost[x], -loss, np.append(revenue, 0.0)[x])
    waiting = rng.random() * a / first + rng.random() * b / second
    return assemble(next_state, event, reward - waiting[:, None, None], 0)
