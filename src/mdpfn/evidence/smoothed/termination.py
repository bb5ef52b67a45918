"""Where episodes end: sparse logistic regression on the successor, and the reward of the end by nearness.

Features [1, z, z_i z_j, (z/2)⁸] with z the standardized successor: boxes such as |x| > 2.4 from a few ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpfn.arrays import Floats, Ints
from mdpfn.evidence.smoothed.config import SmootherConfig
from mdpfn.evidence.smoothed.memory import Batch, index_pairs

N_GOING_ON = 4000  # transitions that did not end, in a fit


@dataclass(frozen=True, eq=False)
class Termination:
    """The probability that a successor ends the episode, and the reward if it does."""

    mean: Floats
    scale: Floats
    weights: Floats
    ends: Floats  # (n, d) standardized states in which episodes ended
    rewards: Floats  # (n,)

    def probability(self, y: Floats) -> Floats:
        """(n,) σ(w · features(y))."""
        logit = _features((y - self.mean) / self.scale) @ self.weights
        return _sigmoid(logit)

    def reward(self, y: Floats, probability: Floats) -> Floats:
        """(n,) the reward of ending in y, by inverse fourth power of the distance to ends, where one is thinkable."""
        if np.ptp(self.rewards) < 1e-9 * (1 + abs(self.rewards[0])):
            return np.full(len(y), self.rewards[0])
        reward = np.zeros(len(y))
        near = probability > 1e-3
        if near.any():
            z = (y[near] - self.mean) / self.scale
            square = (z * z).sum(1)[:, None] + (self.ends * self.ends).sum(1) - 2 * z @ self.ends.T
            weight = 1 / (np.maximum(square, 0) + 1e-4) ** 2
            reward[near] = weight @ self.rewards / weight.sum(1)
        return reward


def fit_termination(
    data: Batch, mean: Floats, scale: Floats, config: SmootherConfig, rng: np.random.Generator
) -> Termination | None:
    """The regression, or None where nothing has ended yet."""
    ends: Ints = np.flatnonzero(data.ended)
    if not len(ends):
        return None
    going: Ints = np.flatnonzero(~data.ended)
    if len(going) > N_GOING_ON:
        n_recent = N_GOING_ON // 4
        older = rng.choice(going[:-n_recent], N_GOING_ON - n_recent, replace=False)
        going = np.concatenate([going[-n_recent:], older])
    rows = np.concatenate([ends, going])
    features = _features((data.y[rows] - mean) / scale)
    weights = _logistic(features, data.ended[rows].astype(np.float64), config.sparsity)
    last = ends[-config.n_ends :]
    return Termination(mean, scale, weights, (data.y[last] - mean) / scale, data.reward[last].copy())


def _features(z: Floats) -> Floats:
    """(n, 1 + 2 d + d (d + 1) / 2) [1, z, z_i z_j, (z/2)⁸]."""
    n, d = z.shape
    i, j = index_pairs(d)
    m = len(i)
    f = np.empty((n, 1 + 2 * d + m))
    f[:, 0] = 1
    f[:, 1 : 1 + d] = z
    np.multiply(z[:, i], z[:, j], out=f[:, 1 + d : 1 + d + m])
    q = z * z
    q *= 0.25
    q *= q
    np.multiply(q, q, out=f[:, 1 + d + m :])
    return f


def _sigmoid(logit: Floats) -> Floats:
    probability: Floats = 1 / (1 + np.exp(-np.clip(logit, -40, 40)))
    return probability


def _logistic(f: Floats, target: Floats, sparsity: float) -> Floats:
    """Ridge logistic regression by damped Newton steps, the ridge reweighted six times towards few features."""
    size = np.maximum(np.abs(f).max(0), 1e-9)
    f = f / size
    ridge = np.full(f.shape[1], 1e-4)
    w = np.zeros(f.shape[1])
    w[0] = -2

    def loss(w: Floats) -> float:
        m = f @ w
        return float((np.logaddexp(0, m) - target * m).sum() + 0.5 * (ridge * w * w).sum())

    for number in range(6):
        if number:
            ridge = np.maximum(1e-4, sparsity * 1e-2 / (w * w / max((w[1:] ** 2).max(), 1e-9) + 1e-2))
        ridge[0] = 1e-6
        now = loss(w)
        for _ in range(20):
            p = _sigmoid(f @ w)
            hessian = (f * (p * (1 - p) + 1e-9)[:, None]).T @ f + np.diag(ridge)
            step = np.linalg.solve(hessian, f.T @ (p - target) + ridge * w)
            length = 1.0
            while length > 1e-4 and loss(w - length * step) > now:
                length *= 0.5
            if length <= 1e-4:
                break
            w = np.asarray(w - length * step)
            before, now = now, loss(w)
            if before - now < 1e-4:
                break
    return np.asarray(w / size)
