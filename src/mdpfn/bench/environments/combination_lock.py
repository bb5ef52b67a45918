"""Combination lock: every wrong digit starts it over."""

from functools import partial

import numpy as np

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.model.mdp import TabularMDP

SOURCE = "Whitehead (1991), Complexity and cooperation in Q-learning; Kakade (2003), On the sample complexity of RL"


def combination_lock(length: int, n_actions: int) -> TabularMDP:
    """A lock of `length` digits with `n_actions` values each, whose code is drawn at random, once.

    The right digit moves on, any other one back to the start; the last one pays 1 and opens the lock.
    """
    code = np.random.default_rng(0).integers(n_actions, size=length)

    def outcomes(state: int, action: int) -> list[Outcome]:
        if state == length:
            return [Outcome(1.0, length, 0.0)]
        if action != code[state]:
            return [Outcome(1.0, 0, 0.0)]
        return [Outcome(1.0, state + 1, 1.0 * (state == length - 1))]

    return mdp_from_outcomes(length + 1, n_actions, outcomes, discount=0.99, start=0, terminal=[length])


ENVIRONMENTS = [
    Environment(
        f"combination-lock-{length}x{n_actions}", "combination lock", SOURCE, 100,
        partial(combination_lock, length, n_actions),
    )
    for length, n_actions in ((6, 3), (12, 2))
]  # fmt: skip
