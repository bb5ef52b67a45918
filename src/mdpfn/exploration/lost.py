"""Whether an agent is lost: nothing that was seen tells good from bad, so that it should go where the unknown is."""

from __future__ import annotations

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.evidence.smoothed.config import SmootherConfig
from mdpfn.evidence.smoothed.memory import Batch


def attainable(data: Batch, config: SmootherConfig) -> float:
    """An optimistic bound on values: the 90th percentile of rewards plus half their range, for ever."""
    going = data.reward[~data.ended] if (~data.ended).any() else data.reward
    high = float(np.percentile(going, 90))
    bound = max(0.0, high, high + config.optimism * float(np.ptp(going))) / (1 - config.discount)
    return max(bound, float(data.reward[data.ended].max())) if data.ended.any() else bound


def is_lost(value: Floats, start_value: float, bound: float) -> bool:
    """Whether values are flat, the start is as good as anything known, and less than what is attainable."""
    best, low = np.percentile(value, 99), np.percentile(value, 10)
    scale = max(abs(bound - start_value), 1e-9)
    nothing_better = best - start_value < 0.02 * max(scale, abs(best))
    return bool(nothing_better and best - low < 0.05 * scale and start_value < bound - 0.1 * max(abs(bound), 1e-9))
