"""How x moves: a Gaussian process on displacement and reward given state and action.

k(u, u′) = s₁² (1 + u·u′) + s₂² (u·u′)² + s_f² exp(−½ Σ (u − u′)² / ℓ²),  u = ((x − mean) / std, code of the action)

The linear part extrapolates from two dozen points, the quadratic one knows products of speeds, angles and actions,
the smooth part bends both. Displacements share their length-scales, the reward has its own (the angle of a pendulum
moves more smoothly than what it costs), variances are per output; all are maximum a posteriori on a few points, the
posterior is Bayesian regression on Nyström points, as many as it takes. Residuals far out (contacts) are set aside and
the fit is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mdpfn.arrays import Bools, Floats, Ints
from mdpfn.evidence.smoothed.config import SmootherConfig
from mdpfn.evidence.smoothed.likelihood import likely_parameters
from mdpfn.evidence.smoothed.memory import Batch, index_pairs, positive_scale, thin
from mdpfn.evidence.smoothed.regression import regress
from mdpfn.evidence.smoothed.walls import walls

VARIES = 1e-7  # of the size of an output: less is rounding
FEWEST = 30  # transitions from which on outliers can be told
MOST_EVEN, EVEN_CELL = 1000, 0.02  # rows, and a cell of their grid in ranges of what was seen
SURPRISE = (2.0, 0.005)  # times the residual when parameters were fitted, and more: fit them again


@dataclass(frozen=True, eq=False)
class Smoother:
    """A fitted process: predicts displacement and reward of (x, action code)."""

    mean_in: Floats
    scale_in: Floats
    scale_out: Floats
    low: Floats  # box of what was seen, padded: predictions stay in it
    high: Floats
    reward_low: float  # so do rewards, in the range that was seen: values that no reward bears out attract the agent
    reward_high: float
    basis: Floats  # (p + 1, m) Nyström points b over ℓ², last row −½ ‖b / ℓ‖²: u @ basis = u·b / ℓ² − ½ ‖b / ℓ‖²
    inv_length_square: Floats  # (p, m) 1 / ℓ²
    w_linear: Floats  # (p + 1, outputs), last row the bias
    w_smooth: Floats  # (m, outputs)
    w_quadratic: Floats  # (p (p + 1) / 2, outputs) of u_i u_j with i ≤ j
    theta: Floats  # log hyper-parameters of displacements, then of the reward, to start the next fit from
    n_fitted: int  # transitions from which theta was fitted
    active: Ints  # outputs that vary
    reward_error: float  # median leave-one-out error of the reward, in standard deviations
    known_error: float  # largest median residual when theta was fitted
    n_ended: int  # ends among what it was fitted to, whose rewards it tells: 0, unless hardly anything went on

    def inputs(self, x: Floats, code: Floats) -> Floats:
        """(n, f) features [u, 1, u_i u_j]; the products are filled in by `outputs`."""
        d, p = len(self.mean_in), len(self.w_linear)
        features = np.empty((len(x), p + len(self.w_quadratic)))
        features[:, :d] = (x - self.mean_in) / self.scale_in
        features[:, d : p - 1] = code
        features[:, p - 1] = 1
        return features

    def outputs(self, features: Floats) -> Floats:
        """(n, d + 1) mean displacement and reward of inputs, the reward not yet kept within its range."""
        p = len(self.w_linear)
        i, j = index_pairs(p - 1)
        np.multiply(features.take(i, 1), features.take(j, 1), out=features[:, p:])
        k = (features @ self._exponents).astype(np.float32)
        np.exp(k, out=k)
        out: Floats = features @ self._weights
        weights, size = self._smooth_weights
        out += (k @ weights) * size
        return out

    def predict(self, x: Floats, code: Floats) -> Floats:
        """(n, d + 1) mean displacement and reward."""
        out = self.outputs(self.inputs(x, code))
        out[:, -1] = self.possible(out[:, -1])
        return out

    def possible(self, reward: Floats) -> Floats:
        """Rewards, within the range that was seen."""
        return np.minimum(np.maximum(reward, self.reward_low), self.reward_high)

    @cached_property
    def _exponents(self) -> Floats:
        """(f, m) features to −½ ‖(u − b) / ℓ‖²."""
        i, j = index_pairs(len(self.w_linear) - 1)
        squares = np.where((i == j)[:, None], -0.5 * self.inv_length_square[i], 0.0)
        return np.concatenate([self.basis, squares])

    @cached_property
    def _weights(self) -> Floats:
        """(f, outputs) weights of the linear and the quadratic part."""
        return np.concatenate([self.w_linear, self.w_quadratic])

    @cached_property
    def _smooth_weights(self) -> tuple[NDArray[np.float32], Floats]:
        """Weights in single precision, and their sizes as powers of two.

        Exponentials take most of the time of acting, and five times as long in double precision; what they are weighed
        with may be larger than single precision holds.
        """
        size = np.exp2(np.ceil(np.log2(np.maximum(np.abs(self.w_smooth).max(0, initial=0.0), 1e-300))))
        return (self.w_smooth / size).astype(np.float32), size


def fit_smoother(
    data: Batch,
    bounds: tuple[Floats, Floats],
    config: SmootherConfig,
    rng: np.random.Generator,
    previous: Smoother | None = None,
) -> Smoother:
    """The process given the transitions that did not end, or all where hardly any went on.

    Hyper-parameters are kept from `previous` until data doubles, or residuals say that they fit no longer.
    """
    n = len(data.x)
    low, high, at_wall = walls(data, bounds, config)
    rows = _chosen_rows(data, at_wall, config, rng)
    even = even_rows(data.x[rows], data.action[rows])
    x = data.x[rows][even]
    mean_in = x.mean(0)
    spread = np.maximum(x.std(0), 1e-3 * np.abs(data.x - mean_in).max(0))
    scale_in = positive_scale(spread, data.x)
    out = np.column_stack([data.y[rows] - data.x[rows], data.reward[rows]])
    mean_out, scale_out, varies = _output_scales(out[even], np.append(scale_in, np.abs(data.reward).max()))
    active = np.flatnonzero(varies)
    z = np.where(varies, (out - mean_out) / scale_out, 0.0)
    u = np.column_stack([(data.x[rows] - mean_in) / scale_in, data.code[rows], np.ones(len(rows))])

    groups = [active[active < len(mean_in)], active[active == len(mean_in)]]  # that share length-scales
    cut = u.shape[1] - 1 + 4 * len(groups[0])
    same = previous is not None and np.array_equal(previous.active, active)
    theta = previous.theta if previous is not None and same else None
    n_fitted = previous.n_fitted if previous is not None and same else 0
    known_error = previous.known_error if previous is not None and same else 0.0
    refit = theta is None or n >= 2 * n_fitted
    outlier = np.zeros(len(rows), np.bool_)
    for attempt in range(3):
        if theta is None or (refit and attempt < 2):  # once on all, once without the outliers
            inside = even[~outlier[even]]
            known = [None, None] if theta is None else [theta[:cut], theta[cut:]]
            likely = [likely_parameters(u[inside, :-1], z[inside][:, group], at, config, rng)
                      for group, at in zip(groups, known, strict=True)]  # fmt: skip
            theta, n_fitted = np.concatenate(likely), n
        candidates = even[~outlier[even]]
        parts = [regress(u[~outlier], z[~outlier], u[candidates, :-1], group, of_group, config)
                 for group, of_group in zip(groups, (theta[:cut], theta[cut:]), strict=True)]  # fmt: skip
        error = np.abs(z - sum(part.predict(u) for part in parts))
        median = np.median(error[even], 0)
        if len(rows) < FEWEST:
            break
        apart = _outliers(error, median, even, config)
        surprised = not refit and float(median.max()) > SURPRISE[0] * known_error + SURPRISE[1]
        if not surprised and not (apart & ~outlier).any():
            break
        outlier, refit = apart, refit or surprised
    if refit:
        known_error = float(median.max())

    assert theta is not None
    w_linear = sum(part.w_linear for part in parts) * scale_out
    w_linear[-1] += mean_out
    return Smoother(
        mean_in=mean_in,
        scale_in=scale_in,
        scale_out=scale_out,
        low=low,
        high=high,
        reward_low=float(out[:, -1].min()),
        reward_high=float(out[:, -1].max()),
        basis=np.concatenate([part.basis * np.append(part.inv_length, 1.0)[:, None] for part in parts], 1),
        inv_length_square=np.repeat(
            [part.inv_length**2 for part in parts], [part.basis.shape[1] for part in parts], axis=0
        ).T.copy(),
        w_linear=np.ascontiguousarray(w_linear),  # the order in memory decides about the last bits
        w_smooth=np.concatenate([part.w_smooth for part in parts]) * scale_out,
        w_quadratic=np.ascontiguousarray(sum(part.w_quadratic for part in parts) * scale_out),
        theta=theta,
        n_fitted=n_fitted,
        active=active,
        reward_error=parts[1].reward_error,
        known_error=known_error,
        n_ended=int(data.ended[rows].sum()),
    )


def _chosen_rows(data: Batch, at_wall: Bools, config: SmootherConfig, rng: np.random.Generator) -> Ints:
    """Transitions that neither ended nor hit a wall, the recent ones and a draw of the others where there are many."""
    n, rows = len(data.x), np.arange(len(data.x))
    if n > config.n_fit:
        n_recent = config.n_fit // 3
        older = rng.choice(n - n_recent, config.n_fit - n_recent, replace=False)
        rows = np.concatenate([np.arange(n - n_recent, n), older])
    going = rows[~(data.ended | at_wall)[rows]]
    return going if len(going) > 5 else rows


def even_rows(x: Floats, action: Ints) -> Ints:
    """Rows that cover what was seen evenly: where the agent dwells, most of the data says the same thing.

    What is usual is told by them; otherwise an episode at rest would make outliers of everything else.
    """
    span = positive_scale(np.ptp(x, axis=0), x)
    return thin(x / span, MOST_EVEN, EVEN_CELL, action)[0]


def _output_scales(out: Floats, size: Floats) -> tuple[Floats, Floats, Bools]:
    """Mean and winsorized standard deviation of outputs, and which of them vary at all."""
    std = out.std(0)
    low, high = np.percentile(out, [1, 99], axis=0)
    winsorized = np.clip(out, low, high).std(0)
    varies = std > VARIES * np.maximum(size, 1e-300)
    scale = np.where(winsorized > 0.1 * std, winsorized, std)
    return out.mean(0), np.where(varies, scale, 1.0), varies


def _outliers(error: Floats, median: Floats, even: Ints, config: SmootherConfig) -> Bools:
    """(n,) residuals that are far out in some output, at most a share of the even rows."""
    limit = config.outlier_mad * 1.48 * median + config.outlier_floor
    score = (error / limit).max(1)
    outlier: Bools = score > max(1.0, float(np.quantile(score[even], 1 - config.outlier_share)))
    return outlier
