"""Inference: from statistics to policy logits, as NumPy arrays."""

from __future__ import annotations

import torch

from mdpfn.arrays import Floats, offsets_of
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.packing import pack
from mdpfn.statistics import StatisticsBatch


@torch.inference_mode()
def plan_logits(
    network: PolicyNetwork,
    statistics: StatisticsBatch,
    *,
    depth: int | None = None,
    transition_bias: float | None = None,
) -> list[Floats]:
    """Policy logits u(s, a) of every MDP, (S, A) each. The network must be in evaluation mode."""
    dtype = network.key.weight.dtype
    flat = network(pack(statistics).to(dtype), depth, transition_bias).double().numpy()
    starts = offsets_of(statistics.n_states * statistics.n_actions)
    shapes = zip(statistics.n_states, statistics.n_actions, strict=True)
    logits: list[Floats] = [flat[a:b].reshape(shape) for a, b, shape in zip(starts, starts[1:], shapes, strict=False)]
    return logits
