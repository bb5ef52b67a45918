"""Inference: from statistics to a policy, as NumPy arrays."""

from __future__ import annotations

import numpy as np
import torch

from mdpfn.absorbing import with_absorbing
from mdpfn.arrays import offsets_of
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.packing import UNKNOWN, Tokens, pack
from mdpfn.outlook import Outlook
from mdpfn.statistics import StatisticsBatch
from mdpfn.told import Told


def tokens_of(network: PolicyNetwork, known: StatisticsBatch, told: Told) -> Tokens:
    """The tokens that this network reads, of statistics in which terminal states look absorbing."""
    parameter = next(network.parameters())
    return pack(known, told if network.config.inputs == "planned" else None).to(parameter.dtype, parameter.device)


@torch.inference_mode()
def outlooks(
    network: PolicyNetwork,
    statistics: StatisticsBatch,
    told: Told | None = None,
    *,
    depth: int | None = None,
    transition_bias: float | None = None,
) -> list[Outlook]:
    """The network's answer for every MDP; it must be in evaluation mode. Without `told`, the default discount holds."""
    known = with_absorbing(statistics)
    told = Told.concatenate([Told.of()] * len(known)) if told is None else told
    tokens = tokens_of(network, known, told)
    answer = network(tokens, depth, transition_bias)
    logits, quantiles = (part.double().cpu().numpy() for part in answer)
    unknown = (tokens.logit_kind == UNKNOWN).cpu().numpy() if network.config.elsewhere else None
    found = []
    first = offsets_of(known.n_states * known.n_actions)
    sizes = zip(first, statistics.n_states, statistics.n_actions, statistics.reward_scale, strict=False)
    for start, s, a, scale in sizes:
        mine = slice(start, start + s * a)
        values = np.sinh(quantiles[mine]).reshape(s, a, -1) * scale if network.config.quantiles else None
        mixed = None if unknown is None else unknown[start : start + s * a : a]
        found.append(Outlook(logits[mine].reshape(s, a), values, mixed))
    return found
