"""Policies that are hardly ever worse than the one the data was made by.

They leave what was done only where bounds of values say that something else is better (`planners.cautious`), and not at
all where models that may be the true one doubt the outcome. How wide bounds and how much doubt belong to a confidence
was measured on logs: `mdpfn leaderboard --offline --logged`.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import scipy  # its parts are loaded when they are used

from mdpfn.online.options import Options
from mdpfn.plan import Plan
from mdpfn.planners.cautious import cautious_policy
from mdpfn.worth import Worth

CAUTION = 0.49  # standard errors, per one of a normal distribution and √log(visited pairs)
DOUBT = 4.0  # times 1 − confidence: bounds protect already, so that models may say more


def kept_to(plan: Plan, options: Options, starts: Mapping[int, int] | None) -> Plan:
    """The plan with the policy that `at_least` asks for, if it does."""
    if options.at_least is None or plan.observed is None or not len(plan.observed.pair):
        return plan
    worth = Worth(plan, starts)
    caution = CAUTION * float(scipy.special.ndtri(options.confidence))
    policy = cautious_policy(plan.observed, plan.discount, caution, plan.posterior.prior_values())
    if np.mean(worth.gain(policy, chosen=False) < 0) > DOUBT * (1 - options.confidence):
        policy = worth.logged_policy
    known = plan.observed.reached_mask()[:, None]
    return replace(plan, safe_policy=np.where(known, policy, plan.recommended))
