"""What is known of a problem before the first step: how the future is discounted and what rewards can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from mdpfn.arrays import Floats, MDPFloats

DEFAULT_DISCOUNT = 0.95
RewardRange: TypeAlias = tuple[float, float]
LARGER_REWARDS = 2.0  # times the largest that was seen, where nobody said how large they can be


@dataclass(frozen=True, eq=False)
class ProblemInfo:
    """One entry per MDP of a batch. A reward range that nobody knows runs from −∞ to ∞."""

    discount: MDPFloats
    reward_low: MDPFloats
    reward_high: MDPFloats

    @classmethod
    def of(cls, discount: float = DEFAULT_DISCOUNT, reward_range: RewardRange | None = None) -> ProblemInfo:
        """What is known of one problem."""
        low, high = reward_range or (-np.inf, np.inf)
        return cls(*(np.array([value], dtype=np.float64) for value in (discount, low, high)))

    @classmethod
    def concatenate(cls, parts: Sequence[ProblemInfo]) -> ProblemInfo:
        """All problems of these, in order."""
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate([getattr(p, f) for p in parts]) for f in cls.__dataclass_fields__))

    def __len__(self) -> int:
        return len(self.discount)

    @property
    def horizon(self) -> Floats:
        """(B,) 1 / (1 − γ): what a reward of 1 for ever is worth."""
        return 1 / (1 - self.discount)

    def attainable(self, largest_seen: float) -> tuple[float, float]:
        """The least and the most that any state of the only problem can be worth."""
        low, high = float(self.reward_low[0]), float(self.reward_high[0])
        if not np.isfinite(low):
            low, high = -LARGER_REWARDS * largest_seen, LARGER_REWARDS * largest_seen
        horizon = float(self.horizon[0])
        return min(low, 0.0) * horizon, max(high, 0.0) * horizon

    def reward_scale(self, largest_seen: Floats) -> Floats:
        """(B,) what rewards are divided by: max |r| of the known range, else the largest |r| seen, else 1."""
        possible = np.maximum(np.abs(self.reward_low), np.abs(self.reward_high))
        seen = np.where(largest_seen > 0, largest_seen, 1.0)
        return np.where(np.isfinite(possible) & (possible > 0), possible, seen)
