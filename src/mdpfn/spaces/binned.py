"""States with numbers that are cut into bins, alone or beside other values."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from mdpfn.spaces.codec import LabelCodec

Edges: TypeAlias = tuple[float, ...]
"""Where one bin ends and the next begins, which holds the edge."""


@dataclass(frozen=True)
class Binned:
    """The parts of a state: their names, and the edges of their bins or None where a part is not cut."""

    names: tuple[str, ...]
    edges: tuple[Edges | None, ...]
    alone: bool  # whether a state is a single value, no tuple

    def __str__(self) -> str:
        cut = [(name, edges) for name, edges in zip(self.names, self.edges, strict=True) if edges is not None]
        return "bins: " + "; ".join(f"{name} at {', '.join(f'{e:g}' for e in edges)}" for name, edges in cut)

    def label(self, value: Any) -> Any:
        """The name of the bin of a value, or the tuple of names and values of several."""
        values = (value,) if self.alone else value
        if not isinstance(values, tuple | list | np.ndarray) or len(values) != len(self.names):
            return value
        parts = list(values)
        for i, (name, edges) in enumerate(zip(self.names, self.edges, strict=True)):
            if edges is not None and isinstance(parts[i], int | float | np.number) and not np.isnan(parts[i]):
                number = int(np.searchsorted(edges, float(parts[i]), side="right"))
                parts[i] = bin_label(name, edges, number)
        return parts[0] if self.alone else tuple(parts)

    def numbers(self, label: Any) -> tuple[Any, ...]:
        """The parts of a label, numbers of bins in the place of their names."""
        return tuple(
            part if edges is None else [bin_label(name, edges, i) for i in range(len(edges) + 1)].index(part)
            for part, name, edges in zip((label,) if self.alone else label, self.names, self.edges, strict=True)
        )


def bin_label(name: str, edges: Edges, number: int) -> str:
    """The name of the bin with this number."""
    if not edges:
        return name
    if number == 0:
        return f"{name} < {edges[0]:g}"
    if number == len(edges):
        return f"{name} ≥ {edges[-1]:g}"
    return f"{edges[number - 1]:g} ≤ {name} < {edges[number]:g}"


class BinnedCodec(LabelCodec):
    """Labels of bins, numbered in the order of appearance; numbers are put into their bins first."""

    def __init__(self, space: Binned, labels: Iterable[Hashable], field: str) -> None:
        super().__init__(labels, field)
        self.space = space

    def encode(self, value: Any) -> int:
        """The number of the bin of a value, or of a bin by its name."""
        return super().encode(self.space.label(value))

    def find(self, value: Any) -> int:
        """The number of the bin of a value, without giving one to a new bin."""
        return super().find(self.space.label(value))

    def is_batch(self, value: Any) -> bool:
        """Whether there are several states side by side."""
        if self.space.alone:
            return super().is_batch(value)
        return (
            isinstance(value, list | np.ndarray) and len(value) > 0 and isinstance(value[0], tuple | list | np.ndarray)
        )
