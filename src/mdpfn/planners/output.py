"""What a planner answers about one problem."""

from __future__ import annotations

from typing import NamedTuple

from mdpfn.arrays import Bools, Floats

MIXING_TEMPERATURE = 0.25  # of the policy in states of which nothing is known; training counts the return of the same


class PlannerOutput(NamedTuple):
    """A policy, and how much a pair may be worth under the best policy there is."""

    policy_logits: Floats  # (S, A) u(s, a); only differences within a row mean something
    q_quantiles: Floats | None = None  # (S, A, levels) quantiles of Q*(s, a) in rising order, in units of reward
    unknown: Bools | None = None  # (S,) states of which nothing is known: they look alike
