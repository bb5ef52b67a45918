"""The factors of discrete states: the parts of a combined space, or features that the user gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdpfn.arrays import Ints
from mdpfn.errors import MdpfnError, shown
from mdpfn.evidence.factored.factors import LARGEST_KEY, Factors
from mdpfn.spaces.codec import Codec, DiscreteCodec, LabelCodec, ProductCodec


class StateFactors:
    """The factors of states, of which more may appear.

    `features` is a function of a state, as the environment calls it, or a table by state: a tuple or vector each.
    Without it, the parts of a combined space are the factors.
    """

    def __init__(self, states: Codec, features: Any = None) -> None:
        self.states, self.features = states, features
        self.sizes = [] if features is not None else _part_sizes(states)
        self._rows: list[tuple[Any, ...] | None] = []  # what features gave, state by state
        self._found: Factors | None = None
        if features is not None:
            self(states.n)  # what is wrong with them is said now

    @classmethod
    def of(cls, states: Codec, features: Any = None) -> StateFactors | None:
        """The factors of a codec's states; None where they have fewer than two."""
        found = cls(states, features)
        return found if features is not None or len(found.sizes) > 1 else None

    def __call__(self, n_states: int) -> Factors:
        """The factors of states 0 … n_states − 1."""
        if self._found is None or len(self._found.codes) != n_states:
            self._found = self._of_features(n_states) if self.features is not None else self._of_parts(n_states)
        return self._found

    def table(self) -> list[list[Any] | None] | None:
        """The rows of `features` for a file, by state; None for states without one."""
        return None if self.features is None else [None if row is None else list(row) for row in self._rows]

    def _of_parts(self, n_states: int) -> Factors:
        sizes = np.array(self.sizes, dtype=np.int64)
        if not isinstance(self.states, LabelCodec):
            return Factors.of_product(self.sizes)
        codes = np.full((n_states, len(sizes)), -1, dtype=np.int64)
        for number, label in enumerate(self.states.labels[:n_states]):
            for j in range(len(sizes) - 1, -1, -1):
                label, codes[number, j] = divmod(label, self.sizes[j])
        return Factors(codes, sizes)

    def _of_features(self, n_states: int) -> Factors:
        known = min(n_states, self.states.n)
        del self._rows[known:]  # names may have been taken back
        for number in range(len(self._rows), known):
            self._rows.append(self._row(number))
        width = max((len(row) for row in self._rows if row is not None), default=0)
        codes = np.full((n_states, width), -1, dtype=np.int64)
        there = [number for number, row in enumerate(self._rows) if row is not None]
        sizes = []
        for j in range(width):
            values = [self._rows[number][j] for number in there]  # type: ignore[index]
            codes[there, j], size = _numbered(values)
            sizes.append(size)
        _, which, count = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
        codes[count[which.reshape(-1)] > 1] = -1  # states that look the same are told apart by their numbers alone
        return Factors(codes, np.array(sizes, dtype=np.int64))

    def _row(self, number: int) -> tuple[Any, ...] | None:
        state = self.states.decode(number)
        try:
            if isinstance(self.features, Mapping):
                row = self.features.get(state)
            elif callable(self.features):
                row = self.features(state)
            else:
                row = self.features[number] if number < len(self.features) else None
            if row is None:
                return None
            values = tuple(np.asarray(row).reshape(-1).tolist()) if isinstance(row, np.ndarray) else tuple(row)
            hash(values)
        except Exception as error:
            limit = f"they must give a tuple or a vector for every state ({type(error).__name__}: {error})"
            raise MdpfnError(
                "features", f"wrong for state {shown(state)}", limit, "check the function or table"
            ) from error
        width = next((len(other) for other in self._rows if other is not None), len(values))
        if len(values) != width or not values or any(value != value for value in values):
            limit = f"every state has equally many, here {width}, and none is missing"
            raise MdpfnError(
                "features", f"{shown(values)} for state {shown(state)}", limit, "give one vector per state"
            )
        return values


def check_features(features: Any, n_states: int) -> None:
    """Refuse a table of rows with fewer rows than there are states."""
    if isinstance(features, Sequence | np.ndarray) and len(features) < n_states:
        limit = f"there are {n_states} states"
        raise MdpfnError("features", f"of {len(features)} rows", limit, "give a row for each state")


def _part_sizes(codec: Codec | None) -> list[int]:
    """How many values each part of a combined space has."""
    if isinstance(codec, LabelCodec):
        return [] if codec.within is None else _part_sizes(codec.within)
    if isinstance(codec, ProductCodec):
        return [size for part in codec.parts for size in _part_sizes(part)]
    return [codec.n] if isinstance(codec, DiscreteCodec) else []


def _numbered(values: Sequence[Any]) -> tuple[Ints, int]:
    """Values as numbers from 0 on, in their order where they have one; whole numbers keep their distances."""
    if all(isinstance(value, int | np.integer) and not isinstance(value, bool) for value in values):
        low, high = min(values, default=0), max(values, default=0)
        if high - low < 4 * len(values) + 64 and abs(high) < LARGEST_KEY:
            return np.array([value - low for value in values], dtype=np.int64), int(high - low) + 1
    try:
        order: list[Any] = sorted(set(values))
    except TypeError:
        order = list(dict.fromkeys(values))
    place = {value: number for number, value in enumerate(order)}
    return np.array([place[value] for value in values], dtype=np.int64), max(len(order), 1)


Features = Callable[[Any], Any] | Mapping[Any, Any] | Sequence[Any]
"""A function of a state, or a table by state (a mapping, or rows in the order of ids)."""
