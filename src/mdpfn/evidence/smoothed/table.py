"""The table of pairs over nodes: what counts give for states, the smoother gives for nodes.

For every (node, action) the action is held until the state has moved by some node spacings: a single step is much
shorter than the spacing, and interpolating at every step would smear values. Every stride that is kept is an option,
and a pair is a node with an option.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpfn.arrays import Floats, Ints
from mdpfn.evidence.smoothed.config import SmootherConfig
from mdpfn.evidence.smoothed.memory import Batch
from mdpfn.evidence.smoothed.nodes import Nodes
from mdpfn.evidence.smoothed.world_model import WorldModel
from mdpfn.evidence.table import PairTable


@dataclass(frozen=True, eq=False)
class Held:
    """Actions held from nodes until they moved far enough, sorted by node, action and stride."""

    row: Ints  # node · actions + action
    stride: Ints
    end: Floats  # (options, d)
    reward: Floats  # discounted over the stride, ends included
    survival: Floats  # the share that does not end on the way


def pair_table(model: WorldModel, nodes: Nodes, data: Batch, config: SmootherConfig) -> PairTable:
    """Every option of every node, with the nodes around its end as successors, as fractional counts."""
    n_actions, n_options = len(model.codes), config.n_options
    held = hold_actions(model, nodes, config)
    index, weight = nodes.locate(held.end)
    first = np.searchsorted(held.row, held.row)  # of the options of the same action in the same node
    rank = np.arange(len(held.row)) - first
    n_visits = np.maximum(spread_visits(nodes, data, n_actions).reshape(-1), config.inferred_visits)[held.row]
    keep = weight > 0
    count = (weight * n_visits[:, None])[keep]
    n_successors = keep.sum(1)
    one, none = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    return PairTable(
        n_states=one + len(nodes),
        n_actions=one + n_actions * n_options,
        pair_mdp=np.zeros(len(held.row), dtype=np.int64),
        pair=held.row * n_options + rank,
        n_visits=n_visits,
        reward_sum=n_visits * held.reward,
        reward_square_sum=n_visits * held.reward**2,
        duration=held.stride.astype(np.float64),
        n_successors=n_successors,
        successor=index[keep].astype(np.int64),
        transition_count=count,
        n_terminated=count * np.repeat(1 - held.survival, n_successors),
        reward_scale=np.array([np.abs(data.reward).max(initial=0.0) or 1.0]),
        forbidden_mdp=none,
        forbidden=none,
    )


def hold_actions(model: WorldModel, nodes: Nodes, config: SmootherConfig) -> Held:
    """Roll every (node, action), and keep the shortest strides that move far enough."""
    n, n_actions = len(nodes), len(model.codes)
    node, action = np.repeat(np.arange(n), n_actions), np.tile(np.arange(n_actions), n)
    x0 = nodes.points[node]
    x = x0 * nodes.scale
    live = np.arange(len(x))
    total, alive, level = np.zeros(len(x)), np.ones(len(x)), np.zeros(len(x), np.int64)
    spacings, kept, fade = np.array(config.moves) * nodes.spacing, [], 1.0
    for t in range(1, config.strides[-1] + 1):
        y, reward, survival = model.step(x[live], action[live])
        x[live] = y
        total[live] += fade * alive[live] * reward
        alive[live] *= survival
        fade *= config.discount
        if t not in config.strides:
            continue
        moved = np.sqrt((((y / nodes.scale) - x0[live]) ** 2).sum(1))
        reached = (moved[:, None] >= spacings).sum(1) + (moved >= config.reach * nodes.reach[node[live]])
        if t == config.strides[-1]:
            reached[:] = config.n_options
        rows = live[reached > level[live]]
        level[live] = np.maximum(level[live], reached)
        kept.append((rows, np.full(len(rows), t), x[rows], total[rows], alive[rows]))
        live = live[level[live] < config.n_options]
        if not len(live):
            break
    columns = [np.concatenate(parts) for parts in zip(*kept, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return Held(*(column[order] for column in columns))


def spread_visits(nodes: Nodes, data: Batch, n_actions: int) -> Floats:
    """(nodes, actions) every observation spread over its nearest nodes by Gaussian weights."""
    k = min(4, len(nodes))
    distance, index = nodes.tree.query(data.x / nodes.scale, k=k)
    distance, index = distance.reshape(-1, k), index.reshape(-1, k)
    w = np.exp(-0.5 * (distance / nodes.bandwidth) ** 2)
    w /= np.maximum(w.sum(1, keepdims=True), 1.0)
    flat = index * n_actions + data.action[:, None]
    visits = np.bincount(flat.ravel(), w.ravel(), len(nodes) * n_actions)
    return np.asarray(visits, dtype=np.float64).reshape(len(nodes), n_actions)
