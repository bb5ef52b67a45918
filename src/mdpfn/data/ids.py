"""Ids of the states and actions of a log."""

from typing import Any

import numpy as np

from mdpfn.arrays import Ints
from mdpfn.checks import checked_ids
from mdpfn.data.columns import NamedColumn
from mdpfn.data.place import first
from mdpfn.errors import MdpfnError
from mdpfn.spaces.codec import Codec, DiscreteCodec, LabelCodec
from mdpfn.spaces.encoding import codec_of


class Ids:
    """Ids of states or actions: by their space if given; else whole numbers are ids, and names are numbered."""

    def __init__(self, space: Any, field: str, largest: int) -> None:
        self.space, self.field, self.largest = space, field, largest
        self.codec: Codec | None = None if space is None else codec_of(space, field, largest)
        self.n = 0 if self.codec is None else self.codec.n

    def __call__(self, values: Any) -> Ints:
        """(k,) the ids of these values."""
        if isinstance(values, NamedColumn):
            return self._named(values)
        if self.space is None and self.codec is None and self.n == 0:
            self.codec = None if are_numbers(values) else LabelCodec([], self.field)
        if self.codec is None:
            ids = self._numbers(plain(values))
            self.n = max(self.n, int(ids.max(initial=-1)) + 1)
            return ids
        ids = self.codec.encode_many(values if self.space is not None else _labels(values))
        self.n = self.codec.n
        return ids

    def _named(self, column: NamedColumn) -> Ints:
        """(k,) the ids of a column of names, each of which is looked up once."""
        ids = np.full(len(column.names), -1)
        present = np.flatnonzero(np.bincount(column.numbers))
        ids[present] = self([column.names[number] for number in present])
        return ids[column.numbers]

    def _numbers(self, values: Any) -> Ints:
        """(k,) these numbers, which are ids as they are."""
        row = self.first_refused(values)
        if row is not None and np.isfinite(values[row]):
            parameter = "observation_space" if self.field == "state" else "action_space"
            limit = f"numbers are ids, whole and from 0 to {self.largest - 1}"
            remedy = f"make them text, which is taken for names, or list them all: {parameter}=[…]"
            if self.field == "state":
                remedy += ", or cut them into bins: bins=…"
            raise MdpfnError(self.field, f"{values[row]} in an entry", limit, remedy)
        return checked_ids(self.field, values)

    def first_refused(self, values: Any) -> int | None:
        """The first row whose number is no id; None if there is none, or values are not numbers that are ids."""
        array = plain(values)
        if self.codec is not None or not are_numbers(array):
            return None
        refused = (array < 0) | (array >= self.largest) | (array != np.floor(array))
        return first(refused) if refused.any() else None

    def finished(self) -> tuple[Any, Codec]:
        """The space and the codec of everything that appeared."""
        if self.codec is None:
            return self.n, DiscreteCodec(self.n, 0, self.field)
        if self.space is None and isinstance(self.codec, LabelCodec) and self.field == "action":
            return self.codec.labels, LabelCodec(self.codec.labels, self.field, growing=False)
        return self.space, self.codec


def are_numbers(values: Any) -> bool:
    """Whether this is a column of numbers."""
    array = plain(values)
    return isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "iufb"


def plain(values: Any) -> Any:
    """An array where possible; objects that are numbers become numbers."""
    try:
        array = np.asarray(values)
    except ValueError:
        return values
    if array.dtype == object and array.size and all(isinstance(v, int | float | np.number) for v in array.flat):
        return np.array(array.tolist())
    return array


def _labels(values: Any) -> list[Any]:
    """Hashable labels: rows of a matrix become tuples."""
    if isinstance(values, np.ndarray):
        return list(map(tuple, values.tolist())) if values.ndim == 2 else values.tolist()
    return list(values)
