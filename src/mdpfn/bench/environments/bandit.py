"""Bandits: noisy rewards, and nothing else to learn, or a context besides."""

from functools import partial

import numpy as np

from mdpfn.bench.environments.base import Environment
from mdpfn.model.mdp import TabularMDP

SOURCE = "Sutton and Barto (2018), Reinforcement Learning, 2nd edition, sections 2.3 and 2.9"


def bandit(n_contexts: int, n_arms: int) -> TabularMDP:
    """Arms with standard normal mean rewards and noise of variance 1; the next context is any, whatever is done."""
    mean = np.random.default_rng(0).standard_normal((n_contexts, n_arms))
    anywhere = np.full(n_contexts, 1 / n_contexts)
    transition = np.broadcast_to(anywhere, (n_contexts, n_arms, n_contexts))
    return TabularMDP.from_dense(transition, mean, discount=0.95, start=anywhere, reward_std=1.0)


ENVIRONMENTS = [
    Environment("bandit-10", "bandit", SOURCE, 20, partial(bandit, 1, 10)),
    Environment("bandit-5x4", "bandit", SOURCE, 20, partial(bandit, 5, 4)),
]
