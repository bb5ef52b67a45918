"""What arriving in a state pays, where that explains rewards: they are then drawn together with successors.

Rewards are summed up by pair, so that what each successor paid is told by pairs together: by all of them, or by those
whose rewards vary. It explains the rewards of a pair if it gives both their mean and their variance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from mdpfn.arrays import Bools, Floats, Ints, sums_by
from mdpfn.evidence import PairTable

UNEXPLAINED = 0.02  # of the variance of the rewards of a pair, at most
DENSE_ENTRIES = 50_000  # of a matrix of pairs and successors, up to which it is not sparse
VARIES = 1e-9  # of the mean square of rewards; less variance is rounding


def arrival_rewards(z: PairTable) -> tuple[Floats, Bools]:
    """(S,) what arriving in a state pays, and (visited,) the pairs whose rewards vary, as that says."""
    variance, varies = variances(z)
    best = np.zeros(int(z.n_states[0])), np.zeros_like(varies)
    if varies.any():
        for tells in (np.ones_like(varies), varies):
            paid = _paid_on_arrival(z, tells)
            explained = varies & _explains(z, paid, variance)
            if explained.sum() > best[1].sum():
                best = paid, explained
    return best


def roughly_on_arrival(z: PairTable) -> tuple[Floats, float]:
    """(S,) what arriving in a state pays, and the share of the variance of rewards within pairs that this explains."""
    variance, varies = variances(z)
    found, weight = [], z.n_visits * varies
    for tells in (np.ones_like(varies), varies):
        paid = _paid_on_arrival(z, tells)
        wrong = weight @ np.abs(_moments(z, paid)[1] - variance)
        found.append((1 - float(wrong / (weight @ variance)), paid))
    share, paid = max(found, key=lambda each: each[0])
    return paid, share


def variances(z: PairTable) -> tuple[Floats, Bools]:
    """(visited,) the variance of the rewards of each pair, and whether it is more than rounding."""
    square = z.reward_square_sum / z.n_visits
    variance = np.maximum(square - z.mean_reward**2, 0)
    return variance, variance > VARIES * square


def _paid_on_arrival(z: PairTable, tells: Bools) -> Floats:
    """(S,) rewards of arriving that fit the mean rewards of some pairs best."""
    observed = tells[z.transition_row]
    seen, place = np.unique(z.successor[observed], return_inverse=True)
    row = (np.cumsum(tells) - 1)[z.transition_row[observed]]
    n, mean = z.n_visits[tells], z.mean_reward[tells]
    share = _matrix(z.successor_probs[observed], row, place, (len(n), len(seen)))
    weighted = share * np.sqrt(n)[:, None]
    normal = weighted.T @ weighted
    if issparse(normal):
        normal = normal.toarray()
    reward = np.zeros(int(z.n_states[0]))
    reward[seen] = np.linalg.lstsq(normal, share.T @ (n * mean), rcond=1e-9)[0]
    return reward


def _matrix(values: Floats, row: Ints, column: Ints, shape: tuple[int, int]) -> Any:
    """The matrix with these values, each in a place of its own: dense where that is faster to make and to multiply."""
    if shape[0] * shape[1] > DENSE_ENTRIES:
        return csr_array((values, (row, column)), shape=shape)
    matrix = np.zeros(shape)
    matrix[row, column] = values
    return matrix


def _explains(z: PairTable, paid: Floats, variance: Floats) -> Bools:
    """(visited,) pairs whose rewards have the mean and the variance that arriving would give them."""
    mean, explained = _moments(z, paid)
    right = np.abs(explained - variance) <= UNEXPLAINED * variance
    return np.asarray(right & ((mean - z.mean_reward) ** 2 <= UNEXPLAINED * variance / z.n_visits))


def _moments(z: PairTable, paid: Floats) -> tuple[Floats, Floats]:
    """(visited,) mean and variance of what arriving pays after each pair."""
    mean, square = (
        sums_by(z.transition_row, z.successor_probs * each[z.successor], len(z.pair)) for each in (paid, paid**2)
    )
    return mean, square - mean**2
