"""Inference: from statistics to policy logits, as NumPy arrays."""

from __future__ import annotations

import torch

from mdpfn.absorbing import with_absorbing
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
    known = with_absorbing(statistics)
    flat = network(pack(known).to(network.key.weight.dtype), depth, transition_bias).double().numpy()
    first = offsets_of(known.n_states * known.n_actions)
    sizes = zip(first, statistics.n_states, statistics.n_actions, strict=False)
    logits: list[Floats] = [flat[start : start + s * a].reshape(s, a) for start, s, a in sizes]
    return logits
