"""What is known of a problem before the first step: how the future is discounted and what rewards can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdpfn.arrays import Floats

DEFAULT_DISCOUNT = 0.95


@dataclass(frozen=True, eq=False)
class Told:
    """One entry per MDP of a batch. A reward range that nobody knows runs from −∞ to ∞."""

    discount: Floats  # (B,)
    reward_low: Floats  # (B,)
    reward_high: Floats  # (B,)

    @classmethod
    def of(cls, discount: float = DEFAULT_DISCOUNT, reward_range: tuple[float, float] | None = None) -> Told:
        """What is known of one problem."""
        low, high = reward_range or (-np.inf, np.inf)
        return cls(np.array([discount], dtype=np.float64), np.array([low]), np.array([high]))

    @classmethod
    def concatenate(cls, parts: Sequence[Told]) -> Told:
        """All problems of these, in order."""
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate([getattr(p, f) for p in parts]) for f in cls.__dataclass_fields__))

    def __len__(self) -> int:
        return len(self.discount)
