"""Missing values of a column, and rows of a column, whatever container it is in."""

from typing import Any

import numpy as np

from mdpfn.arrays import Bools, Ints
from mdpfn.data.columns import NamedColumn
from mdpfn.spaces.codec import is_missing


def missing_rows(values: Any) -> Bools:
    """(k,) whether a value is None, NaN or what pandas puts in their place; of several columns, any of them."""
    if isinstance(values, NamedColumn):
        return values.numbers < 0
    if isinstance(values, np.ndarray) and values.dtype != object:
        if values.dtype.kind in "fc":
            return np.asarray(np.isnan(values).reshape(len(values), -1).any(axis=1))
        return np.isnat(values) if values.dtype.kind in "mM" else np.zeros(len(values), dtype=bool)
    if not isinstance(values, np.ndarray | list):
        return np.zeros(rows_of(values), dtype=bool)
    return np.fromiter(map(_is_missing, values), np.bool_, len(values))


def _is_missing(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_is_missing, value))
    return not isinstance(value, str | int | dict | list | np.ndarray) and is_missing(value)


def rows_of(values: Any) -> int:
    """How many rows a column has, or a batch of observations however deep it is nested."""
    if isinstance(values, dict):
        return rows_of(next(iter(values.values())))
    return rows_of(values[0]) if isinstance(values, tuple) and _is_column(values[0]) else len(values)


def _is_column(value: Any) -> bool:
    """Whether a part of a tuple is a column itself, and not a single value."""
    return isinstance(value, dict | tuple | list | NamedColumn) or np.ndim(value) > 0


def taken(values: Any, rows: Ints | Bools) -> Any:
    """Some rows of a column, or of a batch of observations however deep it is nested."""
    if isinstance(values, NamedColumn | np.ndarray):
        return values[rows]
    if isinstance(values, dict):
        return {key: taken(part, rows) for key, part in values.items()}
    if isinstance(values, tuple) and values and _is_column(values[0]):
        return tuple(taken(part, rows) for part in values)
    if not isinstance(values, list):
        return np.asarray(values)[rows]
    return [values[row] for row in (np.flatnonzero(rows) if rows.dtype == bool else rows).tolist()]
