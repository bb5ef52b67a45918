"""Rewards less an offset: where no episode ends, it changes no policy, but hides what the rewards differ by.

Values change by offset / (1 − γ) everywhere. Where episodes end it is a reason to end them soon or late, and stays.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mdpfn.evidence.table import PairTable
from mdpfn.planners.problem_info import ProblemInfo

FAR = 0.1  # of the largest |reward|: rewards that differ by less lie far from 0
ROUNDING = 1e-14  # of the squared offset: less variance is none


def offset_of(low: float, high: float) -> float:
    """What to take away from rewards between these two, 0 unless they lie far from 0; constant ones tell nothing."""
    return low if 0 < high - low < FAR * max(abs(low), abs(high)) else 0.0


def less(table: PairTable, info: ProblemInfo, offset: float, largest: float) -> tuple[PairTable, ProblemInfo]:
    """The same problem with rewards that are smaller by `offset`, of which the largest is `largest` in size."""
    if not offset:
        return table, info
    n, mean = table.n_visits, table.mean_reward - offset
    variance = table.reward_square_sum / n - table.mean_reward**2
    variance = np.where(variance > ROUNDING * offset**2, variance, 0.0)
    moved = table.with_numbers(
        reward_sum=mean * n,
        reward_square_sum=(variance + mean**2) * n,
        reward_scale=np.array([largest]),
    )
    return moved, replace(info, reward_low=info.reward_low - offset, reward_high=info.reward_high - offset)
