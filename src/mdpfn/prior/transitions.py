"""Where an action leads: Dirichlet rows over a few successors from the pool of a state."""

import numpy as np
from scipy.sparse import csr_array

from mdpfn.arrays import Ints
from mdpfn.prior.draws import simplex


def sample_transition(
    rng: np.random.Generator, pool: Ints, n_actions: int, outdegree: int, concentration: float
) -> csr_array:
    """(S·A, S) rows P(· | s, a) ~ Dirichlet(α 1_O) over a support of size O drawn from the pool of s (A.1)."""
    n_states, pool_size = pool.shape
    order = rng.random((n_states, n_actions, pool_size)).argsort(axis=-1)[:, :, :outdegree]
    support = pool[np.arange(n_states)[:, None, None], order]
    weight = simplex(rng, concentration, support.shape)
    row_start = np.arange(n_states * n_actions + 1) * outdegree
    return csr_array((weight.reshape(-1), support.reshape(-1), row_start), shape=(n_states * n_actions, n_states))
