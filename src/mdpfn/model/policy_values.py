"""Values of policies in many models at once: one linear system each."""

import numpy as np
from scipy.sparse import csr_array, eye_array

from mdpfn.arrays import Floats, Ints, sums_by
from mdpfn.evidence.table import PairTable

DENSE_STATES = 100  # up to here dense systems, many at once, beat sparse ones
DENSE_ENTRIES = 2_000_000  # of the systems solved at once


def policy_values(z: PairTable, policy: Floats, going_on: Floats, reward: Floats, discount: float) -> Floats:
    """(models, S) V = r_π + γ P_π V of π, (S, A) or one for every model (models, S, A), in the only MDP of a table.

    Models are given by what a pair pays (models, rows), and by the probabilities (models, observed) of the transitions
    after which the episode goes on. A pair without a row pays nothing, and ends.
    """
    n, n_states = len(reward), int(z.n_states[0])
    taken = np.broadcast_to(policy.reshape(-1, n_states * policy.shape[-1]), (n, n_states * policy.shape[-1]))[
        :, z.pair
    ]
    flow = discount * taken[:, z.transition_row] * going_on
    pays = np.stack([sums_by(z.state, row, n_states) for row in taken * reward])
    cell = z.state[z.transition_row] * n_states + z.successor
    if n_states > DENSE_STATES:
        return np.stack([_sparse(cell, row, pay) for row, pay in zip(flow, pays, strict=True)])
    step = max(1, DENSE_ENTRIES // n_states**2)
    values = np.empty((n, n_states))
    for first in range(0, n, step):
        some = slice(first, first + step)
        systems = np.stack([sums_by(cell, row, n_states**2) for row in flow[some]]).reshape(-1, n_states, n_states)
        values[some] = np.linalg.solve(np.eye(n_states) - systems, pays[some][..., None])[..., 0]
    return values


def occupancy(z: PairTable, policy: Floats, going_on: Floats, start: Floats, discount: float) -> Floats:
    """(S, A) Σ γᵗ P(s, a at t) of π (S, A) in one model, from a distribution (S,) of starts."""
    n_states = int(z.n_states[0])
    flow = discount * policy.reshape(-1)[z.pair][z.transition_row] * going_on
    cell = z.successor * n_states + z.state[z.transition_row]  # backwards: who comes here
    if n_states > DENSE_STATES:
        arrived = _sparse(cell, flow, start)
    else:
        system = sums_by(cell, flow, n_states**2).reshape(n_states, n_states)
        arrived = np.asarray(np.linalg.solve(np.eye(n_states) - system, start), dtype=np.float64)
    return arrived[:, None] * policy


def _sparse(cell: Ints, flow: Floats, pays: Floats) -> Floats:
    from scipy.sparse.linalg import spsolve  # late: its import takes longer than a plan

    n = len(pays)
    matrix = csr_array((flow, np.divmod(cell, n)), shape=(n, n))
    value: Floats = spsolve((eye_array(n) - matrix).tocsc(), pays)
    return value
