"""How large rewards and values can be, as far as an agent may know."""

from __future__ import annotations

from typing import TypeAlias

from mdpfn.statistics import Statistics

RewardRange: TypeAlias = tuple[float, float]


def largest_reward(statistics: Statistics, reward_range: RewardRange | None) -> float:
    """max |r|: of the range that the user vouches for, otherwise of the rewards observed (1 before any)."""
    if reward_range is None:
        return statistics.reward_scale
    return max(abs(reward_range[0]), abs(reward_range[1]))
