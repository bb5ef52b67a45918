"""Walls: limits that a number of the observation cannot pass, such as the greatest speed or the end of a track.

A wall is told by successors that are exactly the lowest or the highest that was seen, time and again: smooth motion
does not come twice to the same last bit. What hits a wall does not move smoothly, and bends the process where there is
nothing else; without it the process extrapolates, and the wall holds back what it imagines.
"""

from __future__ import annotations

import numpy as np

from mdpfn.arrays import Bools, Floats
from mdpfn.evidence.smoothed.config import SmootherConfig
from mdpfn.evidence.smoothed.memory import Batch

HITS = 2  # so many make a wall
VARIED = 0.5  # share of distinct numbers from which on a number is thought to be continuous


def walls(data: Batch, bounds: tuple[Floats, Floats], config: SmootherConfig) -> tuple[Floats, Floats, Bools]:
    """(d,) the lowest and highest that is imagined, and (n,) transitions that hit a wall.

    Where there is no wall, the range that was seen is widened, up to the `bounds` if nothing lies beyond them; to come
    to a bound is to hit a wall. Flags and whole numbers have limits and no walls; and a limit that is hit often is no
    exception but how the number moves (an empty stock): it is smoothed with the rest.
    """
    low, high = np.minimum(data.x.min(0), data.y.min(0)), np.maximum(data.x.max(0), data.y.max(0))
    pad, rare = config.pad * (high - low), config.outlier_share * len(data.x)
    lowest = np.where(bounds[0] <= low, np.maximum(low - pad, bounds[0]), low - pad)
    highest = np.where(bounds[1] >= high, np.minimum(high + pad, bounds[1]), high + pad)
    continuous = np.array([len(np.unique(column)) for column in data.y.T]) > VARIED * len(data.y)
    at_wall = np.zeros(len(data.x), np.bool_)
    limits = []
    for limit, beyond, bound in ((low, lowest, bounds[0]), (high, highest, bounds[1])):
        at = data.y == limit
        hits = (at & (data.y != data.x)).sum(0)
        is_wall = continuous & (hits >= np.where(limit == bound, 1, HITS))
        limits.append(np.where(is_wall, limit, beyond))
        at_wall |= (at & is_wall & (at.sum(0) <= rare)).any(1)
    return limits[0], limits[1], at_wall
