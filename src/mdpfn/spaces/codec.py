"""Codecs between the states and actions of an environment and ids 0, 1, 2, …

A codec is either as large as its space from the start (`DiscreteCodec`, `ProductCodec`) or it numbers labels, in
the order in which they appear (`LabelCodec`). `spaces.encoding.codec_of` makes the right one.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import index
from typing import Any

import numpy as np

from mdpfn.arrays import Ints
from mdpfn.checks import n_axes
from mdpfn.errors import MdpfnError, shown


class Codec(ABC):
    """A map between values and ids from 0 to n − 1, both ways. `field` is what errors call the values."""

    n: int
    field: str

    @abstractmethod
    def encode(self, value: Any) -> int:
        """The id of a value."""

    def find(self, value: Any) -> int:
        """The id of a value, without giving one to a new value: that is n or above."""
        return self.encode(value)

    @abstractmethod
    def decode(self, number: int) -> Any:
        """The value with this id."""

    @abstractmethod
    def is_batch(self, value: Any) -> bool:
        """Whether this looks like many values side by side, as vector environments return them."""

    @abstractmethod
    def unbatch(self, values: Any) -> list[Any]:
        """The single values of a batch."""

    @abstractmethod
    def batch(self, values: list[Any]) -> Any:
        """Single values side by side, as vector environments take them."""

    def encode_many(self, values: Any) -> Ints:
        """(k,) the ids of a batch."""
        return np.fromiter(map(self.encode, self.unbatch(values)), np.int64)

    def outside(self, value: Any, limit: str) -> MdpfnError:
        """The error for a value that is not of this space."""
        return MdpfnError(self.field, shown(value), limit, "check it against the space given to the agent")


class DiscreteCodec(Codec):
    """Whole numbers from `start` on."""

    def __init__(self, n: int, start: int, field: str) -> None:
        self.n, self.start, self.field = n, start, field

    def encode(self, value: Any) -> int:
        """value − start."""
        try:
            number = index(value) - self.start
        except TypeError:
            if not isinstance(value, np.bool_):
                raise self._outside(value) from None
            number = int(value) - self.start
        if 0 <= number < self.n:
            return number
        raise self._outside(value)

    def decode(self, number: int) -> int:
        """number + start."""
        return number + self.start

    def is_batch(self, value: Any) -> bool:
        """Whether it is an array with one axis."""
        return isinstance(value, np.ndarray | list) and n_axes(value) == 1

    def unbatch(self, values: Any) -> list[Any]:
        """One number per entry."""
        return list(values)

    def batch(self, values: list[Any]) -> Ints:
        """(k,) integers."""
        return np.array(values, dtype=np.int64)

    def encode_many(self, values: Any) -> Ints:
        """(k,) values − start."""
        numbers = np.asarray(values)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iub":
            return super().encode_many(values)
        ids: Ints = numbers.astype(np.int64) - self.start
        for wrong in numbers[(ids < 0) | (ids >= self.n)]:
            raise self._outside(wrong.item())
        return ids

    def _outside(self, value: Any) -> MdpfnError:
        last = self.start + self.n - 1
        return self.outside(value, f"this space holds the whole numbers {self.start} to {last}")


class ProductCodec(Codec):
    """Every combination of the values of `parts`, the last varying fastest.

    `split` takes a value apart, one piece per part (or a batch, one batched piece per part); `join` puts it
    together again. Both raise a TypeError, KeyError or ValueError for what is not of this space.
    """

    def __init__(
        self,
        parts: Sequence[Codec],
        split: Callable[[Any], Sequence[Any]],
        join: Callable[[Sequence[Any]], Any],
        field: str,
    ) -> None:
        self.parts, self.split, self.join, self.field = parts, split, join, field
        self.n = math.prod(part.n for part in parts)

    def encode(self, value: Any) -> int:
        """Mixed-radix number of the ids of its pieces."""
        number = 0
        for part, piece in self._pieces(value):
            number = number * part.n + part.encode(piece)
        return number

    def decode(self, number: int) -> Any:
        """The combination with this number."""
        pieces = []
        for part in reversed(self.parts):
            number, digit = divmod(number, part.n)
            pieces.append(part.decode(digit))
        return self.join(pieces[::-1])

    def is_batch(self, value: Any) -> bool:
        """Whether its first piece is one."""
        try:
            return self.parts[0].is_batch(self.split(value)[0])
        except (TypeError, KeyError, ValueError, IndexError):
            return False

    def unbatch(self, values: Any) -> list[Any]:
        """One combination per entry."""
        columns = [part.unbatch(piece) for part, piece in self._pieces(values)]
        return [self.join(pieces) for pieces in zip(*columns, strict=True)]

    def batch(self, values: list[Any]) -> Any:
        """Every piece batched on its own."""
        columns = zip(*map(self.split, values), strict=True)
        return self.join([part.batch(list(column)) for part, column in zip(self.parts, columns, strict=True)])

    def encode_many(self, values: Any) -> Ints:
        """(k,) mixed-radix numbers; of a list, value by value."""
        if isinstance(values, list):
            return np.fromiter(map(self.encode, values), np.int64)
        numbers: Ints | int = 0
        for part, piece in self._pieces(values):
            numbers = numbers * part.n + part.encode_many(piece)
        return np.atleast_1d(numbers)

    def _pieces(self, value: Any) -> Iterable[tuple[Codec, Any]]:
        try:
            return zip(self.parts, self.split(value), strict=True)
        except (TypeError, KeyError, ValueError, IndexError):
            raise self.outside(value, f"this space holds combinations of {len(self.parts)} pieces") from None


class LabelCodec(Codec):
    """Labels, numbered in the order of appearance; `growing` says whether new ones may appear.

    Labels are the values themselves, which must be hashable, or their numbers in a space too large to be counted
    out (`within`).
    """

    def __init__(
        self, labels: Iterable[Hashable], field: str, *, growing: bool = True, within: Codec | None = None
    ) -> None:
        self.labels: list[Any] = list(labels)
        self.n = len(self.labels)
        self.field, self.growing, self.within = field, growing, within
        self._ids = _Numbering(self._number)
        try:
            self._ids |= {label: number for number, label in enumerate(self.labels)}
        except TypeError:
            limit = "every label must be hashable"
            raise MdpfnError(field, shown(self.labels), limit, "use text, numbers and tuples of these") from None
        if len(self._ids) < self.n:
            raise MdpfnError(field, shown(self.labels), "every label must appear once", "drop the repetition")

    def encode(self, value: Any) -> int:
        """The number of its label; a new one if that is new."""
        try:
            return self._ids[value if self.within is None else self.within.encode(value)]
        except TypeError:
            limit = "it must be hashable where no finite space was given"
            raise MdpfnError(self.field, shown(value), limit, "make it a tuple, a number or a string") from None

    def find(self, value: Any) -> int:
        """The number of its label; n if it has none."""
        try:
            label = value if self.within is None else self.within.encode(value)
            return self.encode(value) if label in self._ids or not self.growing else self.n
        except TypeError:
            return self.encode(value)  # which refuses it

    def forget(self, n: int) -> None:
        """Take back all labels but the first n."""
        for label in self.labels[n:]:
            self._ids.pop(label, None)
        del self.labels[n:]
        self.n = n

    def decode(self, number: int) -> Any:
        """The value whose label has this number."""
        label = self.labels[number]
        return label if self.within is None else self.within.decode(label)

    def is_batch(self, value: Any) -> bool:
        """Whether it is a list or an array, which no label is."""
        if self.within is not None:
            return self.within.is_batch(value)
        return isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim > 0)

    def unbatch(self, values: Any) -> list[Any]:
        """One value per entry."""
        if self.within is not None:
            return self.within.unbatch(values)
        return values.tolist() if isinstance(values, np.ndarray) else list(values)

    def batch(self, values: list[Any]) -> Any:
        """Single values side by side."""
        return values if self.within is None else self.within.batch(values)

    def encode_many(self, values: Any) -> Ints:
        """(k,) the numbers of a batch, at the speed of a dictionary."""
        if self.within is not None:
            return super().encode_many(values)
        try:
            return np.fromiter(map(self._ids.__getitem__, self.unbatch(values)), np.int64)
        except TypeError:
            return super().encode_many(values)

    def _number(self, label: Any) -> int:
        """The number of a label that has none yet."""
        if not self.growing:
            raise self.outside(label, f"it must be one of {shown(self.labels)}")
        if is_missing(label):
            raise MdpfnError(self.field, shown(label), "a value is missing", "drop or repair that transition")
        self.labels.append(label)
        self.n += 1
        return self.n - 1


class _Numbering(dict[Any, int]):
    """Numbers by label; a label without one asks for it."""

    def __init__(self, number: Callable[[Any], int]) -> None:
        self._number = number

    def __missing__(self, label: Any) -> int:
        self[label] = number = self._number(label)
        return number


def is_missing(value: Any) -> bool:
    """Whether this is None, NaN or what pandas puts in their place."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return not isinstance(value, np.ndarray) and bool(value != value)
