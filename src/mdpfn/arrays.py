"""Names for the array types that appear in signatures."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


def offsets_of(lengths: Ints) -> Ints:
    """(n + 1,) start of each run when runs of these `lengths` lie one after the other."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def sums_by(group: Ints, values: Floats, n: int = 0) -> Floats:
    """(at least n,) sum of the values in each group."""
    return np.asarray(np.bincount(group, weights=values, minlength=n), dtype=np.float64)
