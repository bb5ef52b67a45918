"""Columns by role. Several columns become one: vectors if all hold numbers, some of them floats, else tuples."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdpfn.data.columns import Columns, NamedColumn, listed


def by_roles(columns: Columns, values_of: Callable[..., Any]) -> dict[str, Any]:
    """A piece, from the values of every column."""
    piece: dict[str, Any] = {}
    for role, named in columns.items():
        values = [values_of(name) for name in listed(named)]
        if role == "time":
            piece["times"] = values
        else:
            piece[role] = values[0] if isinstance(named, str) else joined(values)
    return piece


def joined(columns: Sequence[Any]) -> Any:
    """(k, d) vectors, or a list of k tuples."""
    plain = [column if isinstance(column, NamedColumn) else np.asarray(column) for column in columns]
    arrays = [column for column in plain if isinstance(column, np.ndarray) and column.dtype.kind in "iuf"]
    if len(arrays) == len(columns) and any(array.dtype.kind == "f" for array in arrays):
        return np.column_stack(arrays).astype(np.float64)
    return list(zip(*map(_values, plain), strict=True))


def _values(column: Any) -> list[Any]:
    if isinstance(column, NamedColumn):
        names = [*column.names, None]  # the last one is number −1, which stands for a missing name
        return [names[number] for number in column.numbers.tolist()]
    values: list[Any] = column.tolist()
    return values
