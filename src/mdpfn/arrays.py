"""Names for the array types that appear in signatures, and helpers for ragged arrays.

Four index spaces run through the library. Types with a shape say which one an array belongs to:

- *mdps*: the MDPs of a batch (B of them);
- *visited*: the visited pairs of all of them;
- *observed*: the observed transitions (pair, successor), one pair after the other;
- *tokens*: the states that have a token, then one per MDP for all its others.

Tests check the shapes (`tests/conftest.py`); at use they are names only, and cost nothing.
"""

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float64, Int64
else:

    class _Shaped:
        def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
            return item[0]

    Bool = Float64 = Int64 = _Shaped

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

MDPInts: TypeAlias = Int64[Ints, " mdps"]
MDPFloats: TypeAlias = Float64[Floats, " mdps"]
PairInts: TypeAlias = Int64[Ints, " visited"]
PairFloats: TypeAlias = Float64[Floats, " visited"]
TransitionInts: TypeAlias = Int64[Ints, " observed"]
TransitionFloats: TypeAlias = Float64[Floats, " observed"]
ForbiddenInts: TypeAlias = Int64[Ints, " forbidden"]
TokenInts: TypeAlias = Int64[Ints, " tokens"]
TokenBools: TypeAlias = Bool[Bools, " tokens"]
PlannerMDPFloats: TypeAlias = Float64[Floats, "mdps planners"]
PlannerPairFloats: TypeAlias = Float64[Floats, "visited planners"]
PlannerTokenFloats: TypeAlias = Float64[Floats, "tokens planners"]
PlannerBools: TypeAlias = Bool[Bools, " planners"]


def offsets_of(lengths: Ints) -> Ints:
    """(n + 1,) start of each run when runs of these `lengths` lie one after the other."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def ranges_of(start: Ints, lengths: Ints) -> Ints:
    """(Σ lengths,) the numbers of all these ranges, one after the other."""
    return np.repeat(start - offsets_of(lengths)[:-1], lengths) + np.arange(lengths.sum())


def entry_rows(matrix: Any) -> Ints:
    """(entries,) the row of each stored entry of a sparse matrix in CSR format."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def normalized(weights: Floats) -> Floats:
    """Weights as probabilities: divided by their sums along the last axis."""
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True), dtype=np.float64)


def sums_by(group: Ints, values: Floats | Bools, n: int = 0) -> Floats:
    """(at least n,) sum of the values in each group."""
    return np.asarray(np.bincount(group, weights=values, minlength=n), dtype=np.float64)
