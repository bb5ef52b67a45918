"""From statistics to a policy, within the limits of an agent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpfn.errors import MdpfnError
from mdpfn.interface.limits import Limits
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.planning import outlooks
from mdpfn.outlook import Outlook
from mdpfn.statistics import StatisticsBatch
from mdpfn.told import Told


@dataclass(frozen=True, eq=False)
class NetworkPlanner:
    """A network with the depth it is unrolled to, by default its own."""

    network: PolicyNetwork
    depth: int | None
    limits: Limits

    def __call__(self, statistics: StatisticsBatch, told: Told) -> list[Outlook]:
        """The outlook of the one MDP that these statistics are of."""
        self.limits.check(statistics)
        found = outlooks(self.network, statistics, told, depth=self.depth)
        if not np.isfinite(found[0].policy_logits).all():
            limit = "plans need rewards and weights of ordinary size"
            raise MdpfnError("the plan", "not finite", limit, "rescale the rewards, or use other weights")
        return found
