"""Bayesian regression of some outputs on linear, quadratic and smooth features, given the hyper-parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # its parts are loaded when they are used

from mdpfn.arrays import Floats, Ints
from mdpfn.evidence.smoothed.config import SmootherConfig
from mdpfn.evidence.smoothed.memory import index_pairs

FEWEST_JUDGED = 60  # transitions from which on an error is estimated


@dataclass(frozen=True, eq=False)
class Regression:
    """Regression weights on [u, 1] and on Nyström points, for standardized outputs."""

    inv_length: Floats
    basis: Floats  # (p + 1, m) b / ℓ, last row −½ ‖b / ℓ‖²
    w_linear: Floats
    w_smooth: Floats
    w_quadratic: Floats
    reward_error: float

    def predict(self, u: Floats) -> Floats:
        """(n, outputs) predictions for inputs [u, 1] (n, p + 1)."""
        smooth = _kernel(u, self.inv_length, self.basis) @ self.w_smooth
        return np.asarray(u @ self.w_linear + _products(u) @ self.w_quadratic + smooth)


def _products(u: Floats) -> Floats:
    """(n, p (p + 1) / 2) u_i u_j with i ≤ j, without the trailing one."""
    i, j = index_pairs(u.shape[1] - 1)
    return u.take(i, 1) * u.take(j, 1)


def _kernel(u: Floats, inv_length: Floats, basis: Floats) -> Floats:
    v = u.copy()
    v[:, :-1] *= inv_length
    return np.asarray(np.exp(np.minimum(v @ basis - 0.5 * (v[:, :-1] ** 2).sum(1)[:, None], 0)))


def regress(
    u: Floats, z: Floats, candidates: Floats, outputs: Ints, theta: Floats, config: SmootherConfig
) -> Regression:
    """Bayesian regression of some outputs on [u, 1, u_i u_j, L⁻¹ k(u, basis)] with the variances of theta.

    The basis are some of the candidates.
    """
    p, q = u.shape[1] - 1, len(outputs)
    inv_length = np.exp(-theta[:p])
    s_f, s_1, s_2, s_n = np.exp(2 * theta[p:]).reshape(4, q)
    negligible = config.unexplained / max(float((s_f / s_n).max(initial=0.0)), 1.0)
    b = _pivots(candidates * inv_length, config.n_inducing if q else 0, negligible)
    square = (b * b).sum(1)
    basis = np.concatenate([b.T, -0.5 * square[None]])
    m = len(b)
    k_mm = np.exp(-0.5 * np.maximum(square[:, None] + square - 2 * b @ b.T, 0))
    chol = np.linalg.cholesky(k_mm + 1e-6 * np.eye(m))
    smooth = scipy.linalg.solve_triangular(chol, _kernel(u, inv_length, basis).T, lower=True, check_finite=False).T
    f = np.concatenate([u, _products(u), smooth], 1)
    i, j = index_pairs(p)
    twice = np.where(i < j, 2.0, 1.0)  # (u·v)² = Σ_i≤j twice_ij (u_i u_j) (v_i v_j)
    gram, moment = f.T @ f, f.T @ z
    w = np.zeros((f.shape[1], z.shape[1]))
    reward_error, diagonal = 0.0, np.arange(f.shape[1])
    for o, k in enumerate(outputs):
        s = gram / s_n[o]
        ridge = 1 / np.concatenate([np.full(1 + p, s_1[o]), s_2[o] * twice, np.full(m, s_f[o])])
        s[diagonal, diagonal] += ridge + 1e-9 * np.trace(s) / len(s)
        factor = scipy.linalg.cho_factor(s, lower=True, check_finite=False)
        w[:, k] = scipy.linalg.cho_solve(factor, moment[:, k] / s_n[o], check_finite=False)
        if k == z.shape[1] - 1 and len(z) >= FEWEST_JUDGED:
            half = scipy.linalg.solve_triangular(np.tril(factor[0]), f.T, lower=True, check_finite=False)
            leverage = np.einsum("ij,ij->j", half, half) / s_n[o]
            left_out = np.abs(z[:, k] - f @ w[:, k]) / np.maximum(1e-3, 1 - leverage)
            reward_error = float(np.median(left_out))
    w_linear, w_quadratic, w_white = np.split(w, [1 + p, 1 + p + len(i)])
    w_smooth = scipy.linalg.solve_triangular(chol.T, w_white, lower=False)
    return Regression(inv_length, basis, w_linear, w_smooth, w_quadratic, reward_error)


def _pivots(v: Floats, m: int, negligible: float) -> Floats:
    """At most m rows of v, each the one whose value the others tell least about, until all of them tell enough.

    A pivoted Cholesky factorization of exp(−½ ‖v − v′‖²): smooth worlds need a few dozen points.
    """
    n = len(v)
    factor, left, picked = np.empty((m, n)), np.ones(n), 0
    norms, rows = (v * v).sum(1), []
    while picked < m:
        far = int(left.argmax())
        if left[far] <= negligible:
            break
        rows.append(far)
        k = np.exp(-0.5 * np.maximum(norms - 2 * (v @ v[far]) + norms[far], 0))
        k -= factor[:picked, far] @ factor[:picked]
        k /= np.sqrt(left[far])
        factor[picked] = k
        left -= k * k
        picked += 1
    return v[rows]
