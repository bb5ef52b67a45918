"""Nodes: states that values are kept for, their metric, and the weights that locate any state among them.

Nodes are observed states thinned on a grid and imagined ones just beyond the frontier. The metric is the standard
deviation of *thinned* states: that of raw data shrinks around wherever the agent dwells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # its parts are loaded when they are used

from mdpfn.arrays import Floats, Ints
from mdpfn.evidence.smoothed.config import SmootherConfig
from mdpfn.evidence.smoothed.memory import Batch, positive_scale, thin
from mdpfn.evidence.smoothed.world_model import WorldModel

NEAR_ROUNDS = 2  # of imagining nodes between those there are
IMAGINED_STRIDES = (1, 2, 4, 8)
IMAGINED_ROLLS = 4000  # in one round
SLOPE_RIDGE = 0.02


@dataclass(frozen=True, eq=False)
class Nodes:
    """Points in a scaled space, with the distance at which they stand and how unknown each of them is."""

    scale: Floats
    tree: scipy.spatial.cKDTree  # of all nodes, scaled
    spacing: float  # median distance of nearest nodes
    reach: Floats  # (nodes,) distance to the (d + 1)-th neighbour: what an option has to move
    bandwidth: float
    unknown: Floats  # (nodes,) ι in [0, 1]
    n_neighbours: int
    newton_steps: int

    def __len__(self) -> int:
        return int(self.tree.n)

    @property
    def points(self) -> Floats:
        """(nodes, d), scaled."""
        return np.asarray(self.tree.data)

    @property
    def states(self) -> Floats:
        """(nodes, d) as observations."""
        return self.points * self.scale

    def locate(self, x: Floats) -> tuple[Ints, Floats]:
        """(n, k) the nodes around x, and weights: non-negative, of sum one, exact for linear functions if possible."""
        z = x / self.scale
        _, index = self._nearest(z, self.n_neighbours)
        return index, entropic_weights(self.points[index] - z[:, None], self.newton_steps)

    def slopes(self, value: Floats) -> Floats:
        """(nodes, d) gradient of the value at every node, by weighted ridge regression on its neighbours."""
        points = self.points
        _, index = self._nearest(points, self.n_neighbours + 1)
        e = points[index] - points[:, None]
        square = np.einsum("qkd,qkd->qk", e, e)
        mean = square.mean(1, keepdims=True) + 1e-300
        weighted = e.transpose(0, 2, 1) * np.exp(-square / mean)[:, None, :]
        gram = weighted @ e + SLOPE_RIDGE * mean[:, :, None] * np.eye(e.shape[2])
        return np.asarray(np.linalg.solve(gram, weighted @ (value[index] - value[:, None])[..., None])[..., 0])

    def interpolate(self, x: Floats, value: Floats, slope: Floats) -> tuple[Floats, Floats]:
        """(n,) value at x as a weighted mean of the tangents at its neighbours, within their range; and ι at x."""
        z = x / self.scale
        distance, index = self._nearest(z, self.n_neighbours)
        square = distance * distance
        w = np.exp(square * (-2 / (square.mean(1, keepdims=True) + 1e-300)))
        w /= w.sum(1, keepdims=True)
        near = value[index]
        tangent = near + np.einsum("qkd,qkd->qk", z[:, None] - self.points[index], slope[index])
        v = np.clip(np.einsum("qk,qk->q", w, tangent), near.min(1), near.max(1))
        return v, np.einsum("qk,qk->q", w, self.unknown[index])

    def _nearest(self, z: Floats, k: int) -> tuple[Floats, Ints]:
        """(n, k) distances and indices of the nearest nodes, of all if there are no more."""
        k = min(k, len(self))
        distance, index = self.tree.query(z, k=k)
        return distance.reshape(len(z), k), index.reshape(len(z), k)


def entropic_weights(offset: Floats, steps: int) -> Floats:
    """(queries, k) local maximum-entropy weights w_j ∝ exp(−2 ‖e_j‖² / mean + λ·e_j) with Σ w_j e_j ≈ 0.

    `offset` (queries, k, d) are neighbours minus query; λ is found by Newton steps.
    """
    n, _, d = offset.shape
    square = np.einsum("qkd,qkd->qk", offset, offset)
    mean = square.mean(1) + 1e-300
    e = offset / np.sqrt(mean)[:, None, None]
    prior = -2 * square / mean[:, None]
    tilt, ridge = np.zeros((n, d)), 1e-3
    diagonal = (ridge + 0.02) * np.eye(d)
    w = _softmax(prior)
    transposed = e.transpose(0, 2, 1)
    for _ in range(steps):
        weighted = transposed * w[:, None, :]
        mu = weighted.sum(2)
        hessian = weighted @ e
        hessian -= mu[:, :, None] * mu[:, None, :]
        hessian += diagonal
        step = np.linalg.solve(hessian, (mu + ridge * tilt)[..., None])[..., 0]
        norm = np.sqrt((step * step).sum(1))
        tilt -= step * np.minimum(1.0, 3.0 / np.maximum(norm, 1e-9))[:, None]
        w = _softmax(prior + (e @ tilt[:, :, None])[..., 0])
    return w


def _softmax(a: Floats) -> Floats:
    a = np.exp(a - a.max(1, keepdims=True))
    a /= a.sum(1, keepdims=True)
    return a


def choose_nodes(
    data: Batch, starts: Floats, model: WorldModel, config: SmootherConfig, rng: np.random.Generator
) -> Nodes:
    """Thinned observed states, then rounds of imagined ones, on the finest grid that the number of nodes allows."""
    most = most_nodes(model, config)
    n_observed = int(most * (1 - config.imagined_share))
    going = np.concatenate([data.y[~data.ended], starts])
    span = positive_scale(np.ptp(going, axis=0), going)
    scale = np.maximum(going[thin(going / span, n_observed)[0]].std(0), 0.02 * span)
    z = going / scale
    seen = scipy.spatial.cKDTree(z[thin(z, 2 * most)[0]])
    index, cell = thin(z, n_observed, config.cell)
    points = _with_imagined(z[index], seen, scale, cell, model, most, config, rng)
    tree = scipy.spatial.cKDTree(points)
    spacing = float(np.median(tree.query(points, k=2)[0][:, -1])) + 1e-9 if len(points) > 4 else 0.1
    k = min(len(scale) + 2, len(points))
    reach = np.maximum(tree.query(points, k=k)[0].reshape(len(points), k)[:, -1], spacing)
    bandwidth = max(config.bandwidth, spacing)
    unknown = 1 - np.exp(-0.5 * (seen.query(points)[0] / bandwidth) ** 2)
    n_neighbours = min(2 * len(scale) + 3, config.most_neighbours)
    return Nodes(scale, tree, spacing, reach, bandwidth, unknown, n_neighbours, config.newton_steps)


def most_nodes(model: WorldModel, config: SmootherConfig) -> int:
    """How many nodes a plan has at most: values are smeared less the more there are, but all of them are rolled out."""
    of_each = len(model.codes) * max(model.smoother.basis.shape[1], 1)  # what is linear needs no Nyström points
    return int(np.clip(config.most_work / of_each, *config.n_nodes))


def _with_imagined(
    observed: Floats,
    seen: scipy.spatial.cKDTree,
    scale: Floats,
    cell: float,
    model: WorldModel,
    n_nodes: int,
    config: SmootherConfig,
    rng: np.random.Generator,
) -> Floats:
    """Points, and those that options lead to from them, if they are apart from all others and near what was seen.

    First far ones, by rounds that go on from what the last one imagined: a state that values are only extrapolated to
    looks like any other. Then near ones, if there is room for them, as in few dimensions: values are smeared less.
    """
    points, n_actions = observed, len(model.codes)
    n_most = int(min(n_nodes - len(points), config.imagined_ratio * len(points)))
    most = len(observed) + n_most
    for rounds, apart in ((config.rounds, max(cell, config.imagined_cell)), (NEAR_ROUNDS, cell)):
        fresh = points
        for _ in range(rounds):
            n_from = max(1, IMAGINED_ROLLS // n_actions)
            if len(fresh) > n_from:
                fresh = fresh[rng.choice(len(fresh), n_from, replace=False)]
            x, action = np.repeat(fresh * scale, n_actions, 0), np.tile(np.arange(n_actions), len(fresh))
            ahead = model.roll(x, action, IMAGINED_STRIDES)
            ends = ahead.end[ahead.survival > 0.5] / scale
            if not len(ends) or len(points) >= most:
                break
            ends = ends[thin(ends, len(ends), apart)[0]]
            near = seen.query(ends, distance_upper_bound=config.trust)[0] < config.trust
            new = scipy.spatial.cKDTree(points).query(ends, distance_upper_bound=apart)[0] > apart
            fresh = ends[near & new]
            if not len(fresh):
                break
            fresh = fresh[thin(fresh, most - len(points), apart)[0]]
            points = np.concatenate([points, fresh])
    return points
