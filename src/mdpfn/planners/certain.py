"""The certainty-equivalent policy in the place of a network's."""

import numpy as np

from mdpfn.evidence.table import PairTable
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.planners.classical import CERTAINTY_EQUIVALENT, estimate
from mdpfn.planners.output import PlannerOutput
from mdpfn.planners.problem_info import ProblemInfo

SHARPNESS = 20.0  # how far the logits of the best and the worst value are apart


def certain(output: PlannerOutput, table: PairTable, info: ProblemInfo) -> PlannerOutput:
    """The output with the logits of the policy that takes the table at its word; what does not exist stays out."""
    estimates = estimate(EmpiricalModel.of(table), info, (CERTAINTY_EQUIVALENT,))
    q = estimates.certainty_equivalent_table().reshape(output.policy_logits.shape)
    tried = np.isfinite(q)
    width = max(float(np.ptp(q[tried])), np.finfo(np.float64).tiny) if tried.any() else 1.0
    logits = np.where(tried, SHARPNESS * (q - q.max(axis=1, keepdims=True)) / width, -2 * SHARPNESS)
    return output._replace(policy_logits=np.where(np.isfinite(output.policy_logits), logits, -np.inf))
