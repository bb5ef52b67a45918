"""The last touch on quantiles: afterwards every level covers what it says."""

from __future__ import annotations

import copy
from functools import partial

import numpy as np
import torch

from mdpfn.network.config import NetworkConfig
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.tensors import tensors_of
from mdpfn.prior.world import WorldConfig, sample_world
from mdpfn.training.held_out import held_out_batches
from mdpfn.training.pool import TrainingBatch
from mdpfn.training.recalibration import recalibrate
from mdpfn.training.tasks import TaskConfig

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)


def coverage(network: PolicyNetwork, training_batches: list[TrainingBatch]) -> np.ndarray:
    """(levels,) the mean over tasks of the share of pairs whose Q* is at most the quantile, task by task."""
    shares = []
    for training_batch in training_batches:
        with torch.no_grad():
            found = network(tensors_of(training_batch.tokens, network)).q_quantiles.numpy()
        for task, first in zip(training_batch.rollout.tasks, training_batch.rollout.pair_start, strict=False):
            mine = slice(first, first + task.mdp.reward.size)
            scale = training_batch.table.reward_scale[training_batch.rollout.tasks.index(task)]
            truth = np.arcsinh(task.solution.q.reshape(-1) / scale)
            counts = np.repeat(~task.mdp.terminal, task.mdp.n_actions)
            if counts.any():
                shares.append((truth[:, None] <= found[mine])[counts].mean(axis=0))
    return np.mean(shares, axis=0)


def test_every_level_covers_what_it_says() -> None:
    torch.manual_seed(0)
    config = NetworkConfig(width=16, n_heads=2, depth=1, inputs="planned", quantiles=LEVELS)
    network = PolicyNetwork(config).double().eval()
    torch.nn.init.normal_(network.head.out.weight, std=0.1)
    sampler = partial(sample_world, config=WorldConfig(n_states=(4, 12), n_actions=(2, 4)))
    training_batches = held_out_batches(TaskConfig(episodes=(1, 4)), sampler, [3], 96, 0.25)
    before = copy.deepcopy(network.state_dict())
    off = np.abs(coverage(network, training_batches) - LEVELS).max()
    recalibrate(network, training_batches)
    assert off > 0.1
    assert np.abs(coverage(network, training_batches) - LEVELS).max() < 0.005
    changed = {name for name, tensor in network.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {"head.out.bias"}
    assert network.head.out.bias[0] == before["head.out.bias"][0]  # the policy stays as it was
