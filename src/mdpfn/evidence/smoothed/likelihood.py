"""Hyper-parameters of the Gaussian process: length-scales, variances and noise that make the data likely."""

from __future__ import annotations

import numpy as np
import scipy  # its parts are loaded when they are used

from mdpfn.arrays import Floats
from mdpfn.evidence.smoothed.config import SmootherConfig

BOUNDS = (-6.0, 5.0)  # of every logarithm
IMPOSSIBLE = 1e10  # the objective where a matrix has no Cholesky factor


def likely_parameters(
    u: Floats, z: Floats, theta: Floats | None, config: SmootherConfig, rng: np.random.Generator
) -> Floats:
    """Log (ℓ, s_f, s₁, s₂, noise) that maximize marginal likelihood × prior on at most `n_hyper` points.

    `theta` is where an earlier fit ended, to begin with if it is still the better start.
    """
    p, q = u.shape[1], z.shape[1]
    prior_mean = np.concatenate(
        [np.full(p, np.log(3.0)), np.zeros(2 * q), np.full(q, np.log(0.1)), np.full(q, np.log(0.05))]
    )
    if q == 0:
        return prior_mean
    prior_width = np.concatenate([np.ones(p), np.full(2 * q, 1.5), np.full(2 * q, 2.0)])
    start = np.concatenate([np.full(p, np.log(2.0)), np.zeros(2 * q), np.full(2 * q, np.log(0.1))])
    n = min(len(u), int(config.n_hyper * (4 / max(4, q)) ** (1 / 3)))
    index = rng.choice(len(u), n, replace=False)
    u, z = u[index], z[index]
    eye, linear = np.arange(n), 1 + u @ u.T
    quadratic = (linear - 1) ** 2

    def objective(t: Floats) -> tuple[float, Floats]:
        s_f, s_1, s_2, s_n = np.exp(2 * t[p:]).reshape(4, q)
        v = u / np.exp(t[:p])
        square = (v * v).sum(1)
        k = np.exp(-0.5 * np.maximum(square[:, None] + square - 2 * v @ v.T, 0))
        total, value, gradient = np.zeros((n, n)), 0.0, np.zeros_like(t)
        for o in range(q):
            c = s_f[o] * k + s_1[o] * linear + s_2[o] * quadratic
            c[eye, eye] += s_n[o] + 1e-6
            factor, bad = scipy.linalg.lapack.dpotrf(c, lower=1)
            if bad:
                return IMPOSSIBLE, np.zeros_like(t)
            inverse = np.tril(scipy.linalg.lapack.dpotri(factor, lower=1)[0])
            inverse = inverse + inverse.T
            inverse[eye, eye] *= 0.5
            alpha = inverse @ z[:, o]
            value += 0.5 * z[:, o] @ alpha + np.log(factor[eye, eye]).sum()
            inverse -= np.outer(alpha, alpha)
            inverse *= 0.5
            gradient[p + q + o] = 2 * s_1[o] * np.vdot(inverse, linear)
            gradient[p + 2 * q + o] = 2 * s_2[o] * np.vdot(inverse, quadratic)
            gradient[p + 3 * q + o] = 2 * s_n[o] * inverse[eye, eye].sum()
            inverse *= k
            gradient[p + o] = 2 * s_f[o] * inverse.sum()
            total += s_f[o] * inverse
        gradient[:p] = 2 * ((total.sum(1)[:, None] * v * v).sum(0) - (v * (total @ v)).sum(0))
        away = (t - prior_mean) / prior_width
        return value + 0.5 * (away**2).sum(), gradient + away / prior_width

    if theta is not None and objective(theta)[0] < objective(start)[0]:
        start = theta
    limits = {"maxiter": config.hyper_steps, "maxfun": config.hyper_steps + 5}
    best = scipy.optimize.minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=[BOUNDS] * len(start), options=limits
    )
    found: Floats = best.x if np.isfinite(best.fun) and best.fun < IMPOSSIBLE / 10 else start
    return found
