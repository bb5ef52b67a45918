"""Policies that are hardly ever worse than the one the data was made by.

They leave what was done only where the data says that something else is surely better (`planners.cautious`), less
boldly until, in models that may be the true one, they are worse than the logged policy with no more than the stated
probability; at last, they are the logged policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mdpfn.online.options import Options
from mdpfn.plan import Plan
from mdpfn.planners.cautious import cautious_policy
from mdpfn.worth import Worth

CAUTION = (0.8, 1.6, 3.2)  # in turn, until the policy is safe


def kept_to(plan: Plan, options: Options, starts: Mapping[int, int] | None) -> Plan:
    """The plan with the policy that `at_least` asks for, if it does."""
    if options.at_least is None or plan.observed is None or not len(plan.observed.pair):
        return plan
    worth = Worth(plan, starts)
    low = plan.posterior.prior_values()
    for caution in CAUTION:
        policy = cautious_policy(plan.observed, plan.discount, caution, low)
        policy = np.where(plan.observed.reached_mask()[:, None], policy, plan.recommended)
        if np.mean(worth.gain(policy) < 0) <= 1 - options.confidence:
            return replace(plan, safe_policy=policy)
    return replace(plan, safe_policy=worth.logged_policy)
