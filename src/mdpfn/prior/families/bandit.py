"""Choices whose consequences end with their reward: bandits, with or without a context.

Which advertisement to show, which dose to give, which supplier to call: the next case arrives whatever was chosen for
this one. An agent must find out that nothing it does now changes what comes later.
"""

import numpy as np

from mdpfn.arrays import Floats, normalized
from mdpfn.model.mdp import TabularMDP
from mdpfn.prior.assembly import assemble
from mdpfn.prior.draws import coin, simplex, whole
from mdpfn.prior.sizes import log_uniform


def sample_bandit(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """Contexts that come at random or drift from one to a near one; rewards with noise, or won and lost.

    Won and lost are states too, so that the outcome of an action is seen and not only its mean.
    """
    wins = coin(rng, 0.4)
    n_contexts = n_states // 2 if wins else n_states
    if coin(rng, 0.3):
        n_contexts = whole(rng, 1, min(3, n_contexts))
    arrival = _arrival(rng, n_contexts)
    mean = _means(rng, n_contexts, n_actions)
    if not wins:
        next_state = np.broadcast_to(np.arange(n_contexts), (n_contexts, n_actions, n_contexts))
        noise = log_uniform(rng, 0.05, 1.0) * float(coin(rng, 0.8))
        start = simplex(rng, 1.0, (n_contexts,))
        return assemble(next_state, arrival[:, None, :], mean[:, :, None], start, reward_std=noise)
    chance = (mean - mean.min() + 0.02) / (np.ptp(mean) + 0.04)
    chance = np.tile(chance, (2, 1))[:, :, None]  # states are (lost or won last time, context)
    arrival = np.tile(arrival, (2, 1))[:, None, :]
    next_state = np.broadcast_to(np.arange(2 * n_contexts), (2 * n_contexts, n_actions, 2 * n_contexts))
    probability = np.concatenate([arrival * (1 - chance), arrival * chance], axis=-1)
    prize, loss = 1.0, -rng.random() * float(coin(rng, 0.3))
    reward = np.repeat([loss, prize], n_contexts)
    start = np.repeat([0.5, 0.5], n_contexts) / n_contexts
    return assemble(next_state, probability, reward, start)


def _arrival(rng: np.random.Generator, n_contexts: int) -> Floats:
    """(C, C) distribution of the next context: the same after each one, or near the last one."""
    if coin(rng, 0.6):
        return np.broadcast_to(simplex(rng, log_uniform(rng, 0.5, 10.0), (n_contexts,)), (n_contexts, n_contexts))
    problem = np.arange(n_contexts)
    gap = np.abs(problem[:, None] - problem)
    near = np.exp(-np.minimum(gap, n_contexts - gap) / log_uniform(rng, 0.2, 3.0))
    return normalized(near)


def _means(rng: np.random.Generator, n_contexts: int, n_actions: int) -> Floats:
    """(C, A) mean rewards: arms good everywhere, arms good in some contexts, or one arm that rarely pays at all."""
    own = rng.standard_normal((n_contexts, n_actions))
    common = rng.standard_normal(n_actions)
    share = rng.random()
    mean: Floats = share * common + (1 - share) * own
    if coin(rng, 0.3):
        mean = np.where(rng.random(mean.shape) < 0.3, np.abs(mean), 0.0)
    return mean
