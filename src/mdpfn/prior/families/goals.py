"""Somewhere to get to, and ways to fail, in a world without a map.

Tasks end: a part is assembled, a patient is cured or lost, a customer signs or leaves. What connects the stages is
not always a place with directions, but an action tends to do similar things in similar states.
"""

import numpy as np

from mdpfn.arrays import Floats, Ints, normalized
from mdpfn.model.mdp import TabularMDP
from mdpfn.prior.draws import coin, simplex, whole
from mdpfn.prior.geometry import sample_geometry, sample_neighbours
from mdpfn.prior.landmarks import sample_landmarks
from mdpfn.prior.rewards import sample_keep_probability, sample_positive_fraction, sample_rewards
from mdpfn.prior.sizes import log_uniform, sample_outdegree


def sample_goals(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """Landmarks on moves that scatter as in the paper, or that shift a latent position the same way everywhere."""
    shifting = coin(rng, 0.5)
    next_state, probability = (_shifts if shifting else _scatter)(rng, n_states, n_actions)
    paid: Floats | float = 0.0
    if coin(rng, 0.25):
        paid = sample_rewards(rng, n_states, n_actions, sample_keep_probability(rng), sample_positive_fraction(rng))
        paid = paid[:, :, None] * log_uniform(rng, 0.03, 0.5)
    return sample_landmarks(rng, n_states).laid_over(next_state, probability, paid)


def _scatter(rng: np.random.Generator, n_states: int, n_actions: int) -> tuple[Ints, Floats]:
    """(S, A, O) successors and probabilities: Dirichlet rows over neighbours in one of the paper's geometries."""
    outdegree = min(sample_outdegree(rng, 5), n_states)
    pool = sample_neighbours(rng, sample_geometry(rng), n_states, min(2 * outdegree, n_states))
    order = rng.random((n_states, n_actions, pool.shape[1])).argsort(axis=-1)[:, :, :outdegree]
    next_state = pool[np.arange(n_states)[:, None, None], order]
    return next_state, simplex(rng, log_uniform(rng, 0.05, 5.0), next_state.shape)


def _shifts(rng: np.random.Generator, n_states: int, n_actions: int) -> tuple[Ints, Floats]:
    """(S, A, O) successors: the states nearest to x_s + v_a, which action a aims at from latent position x_s."""
    dimension = whole(rng, 1, 3)
    x = rng.random((n_states, dimension))
    x = x[x.sum(axis=1).argsort()]
    reach = log_uniform(rng, 0.5, 3.0) * n_states ** (-1 / dimension)
    aim = x[:, None, :] + reach * rng.standard_normal((n_actions, dimension))
    distance = ((aim[:, :, None, :] - x) ** 2).sum(-1)
    outdegree = min(sample_outdegree(rng, 4), n_states)
    next_state = np.argpartition(distance, outdegree - 1, axis=-1)[:, :, :outdegree]
    weight = -np.take_along_axis(distance, next_state, axis=-1) / (reach * log_uniform(rng, 0.2, 2.0)) ** 2
    return next_state, normalized(np.exp(weight - weight.max(axis=-1, keepdims=True)))
