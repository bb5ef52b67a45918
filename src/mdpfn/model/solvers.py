"""Dynamic programming on the pieces of a model, of one MDP or of a ragged batch of them.

Nothing here knows where a model comes from: `exact` solves true MDPs with these functions, agents plan on
their estimates with the same ones. A model is `transition` (pairs, states) sparse,
`reward` (pairs,), `discount` a number or one per pair, and `first_pair` (states,), the index of each
state's first pair (its other pairs follow).
"""

import numpy as np
from scipy.sparse import csr_array

from mdpfn.arrays import Floats, Ints

PAPER_SWEEPS = 500
DEFAULT_TOLERANCE = 1e-9


def bellman_backup(transition: csr_array, reward: Floats, discount: float | Floats, value: Floats) -> Floats:
    """(pairs,) Q(s, a) = r(s, a) + γ Σ_s' P(s' | s, a) V(s')."""
    backup: Floats = reward + discount * (transition @ value)
    return backup


def greedy_value(q: Floats, first_pair: Ints) -> Floats:
    """(states,) V(s) = max_a Q(s, a)."""
    return np.maximum.reduceat(q, first_pair)


def _pairs_by_rank(first_pair: Ints, n_pairs: int) -> Ints:
    """(A, states) the pairs of each state, the last one repeated where there are fewer: rows are maximized fast."""
    n_actions = np.diff(np.append(first_pair, n_pairs))
    rank = np.minimum(np.arange(n_actions.max(initial=1))[:, None], n_actions - 1)
    pairs: Ints = first_pair + rank
    return pairs


def value_iteration(
    transition: csr_array,
    reward: Floats,
    discount: float | Floats,
    first_pair: Ints,
    *,
    tolerance: float = DEFAULT_TOLERANCE,
    max_sweeps: int | None = None,
    initial_value: Floats | None = None,
) -> Floats:
    """(pairs,) Q* by repeated Bellman backups (A.2).

    Stops when ‖V_{k+1} − V_k‖∞ · γ/(1−γ) ≤ `tolerance`, which bounds ‖Q − Q*‖∞, or after `max_sweeps`
    (the paper's ceiling is 500). `initial_value` warm-starts it.
    """
    value = np.zeros(len(first_pair)) if initial_value is None else initial_value
    longest = float(np.max(discount))
    threshold = tolerance * (1 - longest) / max(longest, 1e-12)
    sweep = 0
    pairs = _pairs_by_rank(first_pair, len(reward))
    while True:
        q = bellman_backup(transition, reward, discount, value)
        new_value = q[pairs].max(axis=0)
        sweep += 1
        if np.abs(new_value - value).max() <= threshold or sweep == max_sweeps:
            return q
        value = new_value


def boltzmann_policy(q: Floats, first_pair: Ints, temperature: float | Floats) -> Floats:
    """(pairs,) π_τ(a | s) = softmax_a(Q(s, a) / τ); `temperature` a number or one per pair (A.5)."""
    state = np.repeat(np.arange(len(first_pair)), np.diff(np.append(first_pair, len(q))))
    weight = np.exp((q - greedy_value(q, first_pair)[state]) / temperature)
    return weight / np.add.reduceat(weight, first_pair)[state]
