"""Inference: from statistics to a policy, as NumPy arrays."""

from __future__ import annotations

import os
from functools import partial

import numpy as np
import torch

from mdpfn.arrays import offsets_of
from mdpfn.evidence.table import PairTable
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.packing import UNKNOWN, Tokens, pack
from mdpfn.planners.output import PlannerOutput
from mdpfn.planners.problem_info import ProblemInfo

if hasattr(os, "register_at_fork"):  # threads do not survive a fork, and who waits for them waits for ever
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


def tokens_of(network: PolicyNetwork, model: EmpiricalModel, info: ProblemInfo) -> Tokens:
    """The tokens that this network reads."""
    parameter = next(network.parameters())
    return pack(model, info if network.config.inputs == "planned" else None).to(parameter.dtype, parameter.device)


@torch.inference_mode()
def planner_outputs(
    network: PolicyNetwork,
    table: PairTable,
    info: ProblemInfo | None = None,
    *,
    depth: int | None = None,
    transition_bias: float | None = None,
) -> list[PlannerOutput]:
    """The network's answer for every MDP; it must be in evaluation mode. Without `info`, the default discount holds."""
    model = EmpiricalModel.of(table)
    info = ProblemInfo.concatenate([ProblemInfo.of()] * len(table)) if info is None else info
    tokens = tokens_of(network, model, info)
    answer = network(tokens, depth, transition_bias)
    logits, quantiles = (part.double().cpu().numpy() for part in answer)
    unknown = (tokens.logit_kind == UNKNOWN).cpu().numpy() if network.config.action_pooling else None
    found = []
    first = offsets_of(model.table.n_states * table.n_actions)
    sizes = zip(first, table.n_states, table.n_actions, table.reward_scale, strict=False)
    for start, s, a, scale in sizes:
        mine = slice(start, start + s * a)
        values = np.sinh(quantiles[mine]).reshape(s, a, -1) * scale if network.config.quantiles else None
        mixed = None if unknown is None else unknown[start : start + s * a : a]
        found.append(PlannerOutput(logits[mine].reshape(s, a), values, mixed))
    return found
