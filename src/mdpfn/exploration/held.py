"""A policy to gather data by that is held for an episode or more, without a plan in between."""

from __future__ import annotations

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.evidence import PairTable
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.planners.classical import PURE_EXPLORATION, estimate
from mdpfn.planners.policies import softmax
from mdpfn.planners.problem_info import ProblemInfo

TEMPERATURE = 0.3  # of the range of values in a state


def held_policy(table: PairTable, info: ProblemInfo) -> Floats:
    """(S, A) the pure-exploration plan, softened: the best action alone could hit the same wall again and again."""
    model = EmpiricalModel.of(table)
    q = estimate(model, info, (PURE_EXPLORATION,)).q_table(PURE_EXPLORATION).reshape(int(model.n_states[0]), -1)
    finite = np.where(np.isfinite(q), q, np.nan)
    spread = np.nanmax(finite, axis=1, keepdims=True) - np.nanmin(finite, axis=1, keepdims=True)
    return softmax(q / (TEMPERATURE * np.where(spread > 0, spread, 1.0)))
