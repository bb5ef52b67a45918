"""From statistics to policy logits, within the limits of an agent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.errors import MdpfnError
from mdpfn.interface.limits import Limits
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.planning import plan_logits
from mdpfn.statistics import StatisticsBatch


@dataclass(frozen=True, eq=False)
class NetworkPlanner:
    """A network with the depth it is unrolled to, by default its own."""

    network: PolicyNetwork
    depth: int | None
    limits: Limits

    def __post_init__(self) -> None:
        self.limits.check_depth(self.depth)

    def __call__(self, statistics: StatisticsBatch) -> list[Floats]:
        """[(S, A)] policy logits of the one MDP that these statistics are of."""
        self.limits.check(statistics)
        logits = plan_logits(self.network, statistics, depth=self.depth)
        if not np.isfinite(logits[0]).all():
            limit = "plans need rewards and weights of ordinary size"
            raise MdpfnError("the plan", "not finite", limit, "rescale the rewards, or use other weights")
        return logits
