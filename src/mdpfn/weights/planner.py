"""The planner of an agent: a network applied to a table of pairs, within limits."""

from dataclasses import dataclass

import numpy as np

from mdpfn.errors import MdpfnError
from mdpfn.evidence import PairTable
from mdpfn.network.numpy_network import NumpyNetwork
from mdpfn.network.planning import planner_outputs
from mdpfn.planners.output import PlannerOutput
from mdpfn.planners.problem_info import ProblemInfo
from mdpfn.weights.limits import Limits


@dataclass(frozen=True, eq=False)
class NetworkPlanner:
    """A network with the depth it is unrolled to, by default its own."""

    network: NumpyNetwork
    depth: int | None
    limits: Limits

    def __call__(self, table: PairTable, info: ProblemInfo) -> PlannerOutput:
        """The network's policy and quantiles for the one MDP of a table."""
        self.limits.check(table)
        (output,) = planner_outputs(self.network, table, info, depth=self.depth)
        parts = [output.policy_logits] if output.q_quantiles is None else [output.policy_logits, output.q_quantiles]
        for part in parts:
            if not np.isfinite(part).all():
                limit = "plans need rewards and weights of ordinary size"
                raise MdpfnError("the plan", "not finite", limit, "rescale the rewards, or use other weights")
        if output.q_quantiles is not None:
            output.q_quantiles.clip(*info.attainable(float(table.reward_scale[0])), out=output.q_quantiles)
        for part in parts:
            part.reshape(part.shape[0] * part.shape[1], -1)[table.forbidden] = -np.inf
        return output
