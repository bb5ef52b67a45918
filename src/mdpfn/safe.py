"""Policies that are hardly ever worse than the one the data was made by.

They leave what was done only where bounds of values say that something else is better (`planners.cautious`). How wide
bounds belong to a confidence was measured on logs of worlds and environments: `mdpfn leaderboard --offline --logged`.
"""

from dataclasses import replace

import numpy as np
import scipy  # its parts are loaded when they are used

from mdpfn.online.options import Options
from mdpfn.plan import Plan
from mdpfn.planners.cautious import cautious_policy

CAUTION = 1 / 3  # standard errors, per one of a normal distribution and √log(visited pairs)


def with_safe_policy(plan: Plan, options: Options) -> Plan:
    """The plan with a policy that is hardly ever worse than the logged one, if the option `at_least` asks for it."""
    if options.at_least is None or plan.observed is None or not len(plan.observed.pair):
        return plan
    errors = float(scipy.special.ndtri(options.confidence))
    policy = cautious_policy(plan.observed, plan.discount, errors, CAUTION, plan.posterior.prior_values())
    known = plan.observed.reached_mask()[:, None]
    return replace(plan, safe_policy=np.where(known, policy, plan.recommended))
