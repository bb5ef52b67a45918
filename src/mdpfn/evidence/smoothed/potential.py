"""Rewards that are differences of a potential: r = Φ(y) − Φ(x) + c_a.

Where this explains rewards everywhere about as well as the process does, W = V + Φ is planned, with reward
c_a + (1 − γ) Φ(y): the same policies, without summing up many small errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpfn.arrays import Bools, Floats
from mdpfn.evidence.smoothed.memory import Batch, index_pairs
from mdpfn.evidence.smoothed.smoother import Smoother, even_rows

FEWEST = 60  # transitions from which on a potential is looked for
AS_GOOD, LARGE = 1.5, 0.9  # times the errors of the process, at this quantile: as good as that


@dataclass(frozen=True, eq=False)
class Potential:
    """Φ with features [z, z_i z_j, |x|] and the cost of each action."""

    mean: Floats
    scale: Floats
    weights: Floats
    action_reward: Floats  # (actions,)
    low: float
    high: float

    def __call__(self, x: Floats) -> Floats:
        """(n,) Φ(x), within the range that was seen."""
        phi: Floats = np.clip(_features(x, self.mean, self.scale) @ self.weights, self.low, self.high)
        return phi


def _features(x: Floats, mean: Floats, scale: Floats) -> Floats:
    z = (x - mean) / scale
    i, j = index_pairs(z.shape[1])
    return np.concatenate([z, z[:, i] * z[:, j], np.abs(x) / scale], 1)


def fit_potential(data: Batch, n_actions: int, smoother: Smoother, rng: np.random.Generator) -> Potential | None:
    """Φ where its two-fold errors, median and large ones, are below `AS_GOOD` times those of the process, else None.

    Large ones count where rows cover the seen states evenly: what explains most rewards, as any Φ does at rest at a
    goal, but not those of places that were seldom seen, leads astray there.
    """
    going = ~data.ended
    x, y, action, reward = data.x[going], data.y[going], data.action[going], data.reward[going]
    varies = len(x) >= FEWEST and reward.std() >= 1e-7 * max(np.abs(reward).max(), 1e-300)
    if not varies or smoother.reward_error <= 0.01:
        return None
    mean, scale = smoother.mean_in, smoother.scale_in
    f = np.concatenate([_features(y, mean, scale) - _features(x, mean, scale), np.eye(n_actions)[action]], 1)
    half = rng.random(len(x)) < 0.5

    def solve(rows: Bools) -> Floats:
        gram = f[rows].T @ f[rows] + 1e-3 * np.eye(f.shape[1])
        return np.asarray(np.linalg.solve(gram, f[rows].T @ reward[rows]))

    error, even = np.abs(reward - np.where(half, f @ solve(~half), f @ solve(half))), even_rows(x, action)
    of_process = np.abs(reward[even] - smoother.predict(x[even], data.code[going][even])[:, -1])
    worse = np.median(error) >= AS_GOOD * smoother.reward_error * smoother.scale_out[-1]
    if worse or np.quantile(error[even], LARGE) >= AS_GOOD * np.quantile(of_process, LARGE):
        return None
    w = solve(np.ones(len(x), np.bool_))
    phi = _features(y, mean, scale) @ w[:-n_actions]
    return Potential(mean, scale, w[:-n_actions], w[-n_actions:], float(phi.min()), float(phi.max()))
