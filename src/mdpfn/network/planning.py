"""Inference: from a table of pairs to policies."""

import numpy as np

from mdpfn.arrays import offsets_of
from mdpfn.evidence.table import PairTable
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.network.numpy_network import NumpyNetwork
from mdpfn.network.packing import UNKNOWN, pack
from mdpfn.planners.output import PlannerOutput
from mdpfn.planners.problem_info import ProblemInfo


def planner_outputs(
    network: NumpyNetwork,
    table: PairTable,
    info: ProblemInfo | None = None,
    *,
    depth: int | None = None,
    transition_bias: float | None = None,
) -> list[PlannerOutput]:
    """The network's answer for every MDP. Without `info`, the default discount holds."""
    model = EmpiricalModel.of(table)
    info = ProblemInfo.concatenate([ProblemInfo.of()] * len(table)) if info is None else info
    tokens = pack(model, info if network.config.inputs == "planned" else None, network.config.most_visits)
    answer = network(tokens, depth, transition_bias)
    logits, quantiles = (part.astype(np.float64) for part in answer)
    unknown = tokens.logit_kind == UNKNOWN if network.config.action_pooling else None
    found = []
    first = offsets_of(model.table.n_states * table.n_actions).tolist()
    sizes = zip(first, table.n_states.tolist(), table.n_actions.tolist(), table.reward_scale.tolist(), strict=False)
    for start, s, a, scale in sizes:
        mine = slice(start, start + s * a)
        values = np.sinh(quantiles[mine]).reshape(s, a, -1) * scale if network.config.quantiles else None
        mixed = None if unknown is None else unknown[start : start + s * a : a]
        found.append(PlannerOutput(logits[mine].reshape(s, a), values, mixed))
    return found
