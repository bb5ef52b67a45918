"""Cutting columns of numbers into bins, at given edges or such that each bin holds equally many rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.data.columns import Columns, listed
from mdpfn.data.options import Bins
from mdpfn.errors import MdpfnError
from mdpfn.spaces.binned import Binned, Edges, bin_label

DIGITS = 4  # of an edge, which people have to read


def bins_of(name: str, bins: Bins | None, *, cut: bool) -> int | Sequence[float] | None:
    """The number of bins of a column, or their edges; None where it is not cut. One number is for all with `cut`."""
    if isinstance(bins, Mapping):
        return bins.get(name)
    return bins if cut else None


def quantile_levels(n: int) -> Floats:
    """(n − 1,) the shares of rows below the edges of n bins."""
    return np.linspace(0, 1, n + 1)[1:-1]


def rounded_edges(values: Iterable[Any]) -> Edges:
    """Edges with few digits, each once."""
    return tuple(sorted({float(f"{value:.{DIGITS}g}") for value in values if value is not None}))


def binned_space(columns: Columns, edges: Mapping[str, Edges]) -> Binned:
    """The space of states whose columns have these edges."""
    names = listed(columns["state"])
    return Binned(tuple(names), tuple(edges.get(name) for name in names), isinstance(columns["state"], str))


def check_names(columns: Columns, bins: Bins | None) -> None:
    """Refuse bins for columns that are no part of the state."""
    names = listed(columns["state"])
    for name in bins if isinstance(bins, Mapping) else ():
        if name not in names:
            limit = f"the state is made of {', '.join(names)}"
            raise MdpfnError("bins", repr(name), limit, "name one of these columns")


def labelled(values: Any, space: Binned) -> list[Any]:
    """States with the names of bins in the place of their numbers."""

    def part(name: str, edges: Edges | None, value: Any) -> Any:
        return value if edges is None or value is None or value != value else bin_label(name, edges, int(value))

    if space.alone:
        return [part(space.names[0], space.edges[0], value) for value in values]
    rows = values.tolist() if isinstance(values, np.ndarray) else values
    return [tuple(map(part, space.names, space.edges, row)) for row in rows]


def edges_of_rows(values: Floats, bins: int | Sequence[float]) -> Edges:
    """The edges of the bins of one column."""
    if not isinstance(bins, int):
        return tuple(map(float, bins))
    known = values[~np.isnan(values)]
    return rounded_edges(np.quantile(known, quantile_levels(bins))) if len(known) else ()
