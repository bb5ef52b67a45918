"""Whether an agent is lost: nothing that was seen tells good from bad, so that it should go where the unknown is."""

from __future__ import annotations

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.evidence.smoothed.config import SmootherConfig
from mdpfn.evidence.smoothed.memory import Batch


def attainable(data: Batch, config: SmootherConfig) -> float:
    """An optimistic bound on values: the 90th percentile of rewards plus half their range, for ever."""
    high = float(np.percentile(_on_the_way(data), 90))
    bound = max(0.0, high, high + config.optimism * reward_range(data)) / (1 - config.discount)
    return max(bound, float(data.reward[data.ended].max())) if data.ended.any() else bound


def reward_range(data: Batch) -> float:
    """How far rewards on the way are apart."""
    return float(np.ptp(_on_the_way(data)))


def _on_the_way(data: Batch) -> Floats:
    """Rewards of transitions after which an episode went on, or all if there are none."""
    return data.reward[~data.ended] if (~data.ended).any() else data.reward


def is_lost(value: Floats, start_value: float, bound: float, reward_range: float) -> bool:
    """Whether values are flat, the start is as good as anything known, and less than what is attainable.

    Values are not flat where they differ by more than rewards do: these tell good from bad, however soon all is well.
    """
    best, low = np.percentile(value, 99), np.percentile(value, 10)
    if 0 < reward_range < best - low:
        return False
    scale = max(abs(bound - start_value), 1e-9)
    nothing_better = best - start_value < 0.02 * max(scale, abs(best))
    return bool(nothing_better and best - low < 0.05 * scale and start_value < bound - 0.1 * max(abs(bound), 1e-9))
