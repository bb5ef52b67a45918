"""From logged transitions to statistics, piece by piece, with the names of states and actions and the starts."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from mdpfn.arrays import Bools, Ints
from mdpfn.checks import checked_flags, checked_ids, finite_floats
from mdpfn.data.columns import NamedColumn, done_means_both
from mdpfn.data.sources import Source
from mdpfn.errors import MdpfnError
from mdpfn.evidence.statistics import Statistics
from mdpfn.spaces.codec import Codec, DiscreteCodec, LabelCodec, is_missing
from mdpfn.spaces.encoding import SpaceEncoding, codec_of
from mdpfn.weights.limits import Limits

SPARSE = 3  # times as many ids as states that appear: hardly what was meant
SHUFFLED = 0.25  # share of rows that do not go on where the last one ended, from which on order tells nothing


class Ids:
    """Ids of states or actions: by their space if given, else whole numbers as they are and names as they come."""

    def __init__(self, space: Any, field: str, largest: int) -> None:
        self.space, self.field, self.largest = space, field, largest
        self.codec: Codec | None = None if space is None else codec_of(space, field, largest)
        self.n = 0 if self.codec is None else self.codec.n

    def __call__(self, values: Any) -> Ints:
        """(k,) the ids of these values."""
        if isinstance(values, NamedColumn):
            return self._named(values)
        if self.space is None and self.codec is None and self.n == 0:
            self.codec = None if _are_numbers(values) else LabelCodec([], self.field)
        if self.codec is None:
            ids = self._numbers(_plain(values))
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
        if _are_numbers(values):
            bad = values[(values < 0) | (values >= self.largest) | (values != np.floor(values))]
            if bad.size and np.isfinite(bad[0]):
                parameter = "observation_space" if self.field == "state" else "action_space"
                limit = f"numbers are ids, whole and from 0 to {self.largest - 1}"
                remedy = f"make them text, which is taken for names, or list them all: {parameter}=[…]"
                raise MdpfnError(self.field, f"{bad[0]} in an entry", limit, remedy)
        return checked_ids(self.field, values)

    def finished(self) -> tuple[Any, Codec]:
        """The space and the codec of everything that appeared."""
        if self.codec is None:
            return self.n, DiscreteCodec(self.n, 0, self.field)
        if self.space is None and isinstance(self.codec, LabelCodec) and self.field == "action":
            return self.codec.labels, LabelCodec(self.codec.labels, self.field, growing=False)
        return self.space, self.codec


class DatasetReader:
    """Statistics that grow with the data, and the states in which episodes started."""

    def __init__(self, source: Source, observation_space: Any, action_space: Any, limits: Limits) -> None:
        self.source, self.limits = source, limits
        self.states = Ids(
            source.observation_space if observation_space is None else observation_space, "state", limits.states
        )
        self.actions = Ids(source.action_space if action_space is None else action_space, "action", limits.actions)
        self.statistics = Statistics(max(self.states.n, 1), max(self.actions.n, 1))
        self.start_states: Counter[int] = Counter()
        self._last: tuple[int, bool] | None = None  # where the last row ended, and whether its episode did
        self._n_breaks = 0

    def read(self) -> Statistics:
        """The statistics of all transitions of the source."""
        for piece in self.source.pieces:
            self._add(piece)
        if self.statistics.n_transitions == 0:
            raise MdpfnError("transitions", "empty", "there must be at least one", "check where they come from")
        self._warn_of_gaps()
        return self.statistics

    def _warn_of_gaps(self) -> None:
        """Numbers are ids: those that never appear are states too, of which nothing is known."""
        z = self.statistics.table()
        n_seen, n_states = len(np.union1d(z.state, z.successor)), int(z.n_states[0])
        if self.states.codec is None and n_states > SPARSE * n_seen:
            text = (
                f"states run from 0 to {n_states - 1}, but only {n_seen} of them appear, and the others count as "
                "unknown: make them text, which is taken for names, or list them: observation_space=[…]"
            )
            warnings.warn(text, UserWarning, stacklevel=4)

    def encoding(self) -> SpaceEncoding:
        """What the states and actions are called that appeared."""
        (observation_space, states), (action_space, actions) = self.states.finished(), self.actions.finished()
        return SpaceEncoding(observation_space, action_space, states, actions)

    @property
    def starts_known(self) -> bool:
        """Whether rows follow each other as in episodes."""
        return self._n_breaks <= SHUFFLED * self.statistics.n_transitions

    def _add(self, piece: Mapping[str, Any]) -> None:
        if self.states.space is None and _are_numbers(piece["state"]) != _are_numbers(piece["next_state"]):
            types = f"of type {_type(piece['next_state'])} where state is of type {_type(piece['state'])}"
            limit = "both must be numbers or both names, or they would never be the same"
            raise MdpfnError("next_state", types, limit, "convert one of them")
        state = self.states(_complete(piece, "state"))
        action = self.actions(_complete(piece, "action"))
        reward = finite_floats("reward", _plain(piece["reward"]))
        terminated = flags(piece, "terminated", len(state))
        truncated = flags(piece, "truncated", len(state))
        if self.source.columns is not None and done_means_both(self.source.columns):
            terminated = terminated & ~truncated
        ends = _with_ends(piece["next_state"], piece["state"], terminated)
        next_state = self.states(_complete({"next_state": ends}, "next_state"))
        self._make_room()
        self.statistics.add_transitions(state, action, reward, next_state, terminated)
        self._note_starts(state, next_state, terminated | truncated)

    def _make_room(self) -> None:
        n_states, n_actions = max(self.states.n, 1), max(self.actions.n, 1)
        self.limits.check_sizes(n_states, n_actions)
        if n_actions > self.statistics.n_actions:
            self.statistics = self.statistics.resized(max(n_states, self.statistics.n_states), n_actions)
        self.statistics.make_room(n_states)

    def _note_starts(self, state: Ints, next_state: Ints, ended: Bools) -> None:
        """An episode starts after the end of another, and where a row does not go on from the last one."""
        if len(state) == 0:
            return
        before, over = self._last or (-1, True)
        was_over = np.concatenate([[over], ended[:-1]])
        goes_on = state == np.concatenate([[before], next_state[:-1]])
        breaks = ~was_over & ~goes_on
        self._n_breaks += int(breaks.sum())
        starts, count = np.unique(state[was_over | breaks], return_counts=True)
        self.start_states.update(dict(zip(starts.tolist(), count.tolist(), strict=True)))
        self._last = int(next_state[-1]), bool(ended[-1])


def _complete(piece: Mapping[str, Any], role: str) -> Any:
    """The values of a role, among which no name may be missing."""
    values = piece[role]
    if isinstance(values, NamedColumn) and (values.numbers < 0).any():
        raise MdpfnError(f"a {role}", "empty", "every row needs one", "drop or repair that row")
    return values


def _with_ends(next_states: Any, states: Any, terminated: Bools) -> Any:
    """Next states, of which those may be missing that nothing follows: there, the state itself stands for the end.

    Statistics tell such an end from a state in which others went on.
    """
    if isinstance(next_states, NamedColumn):
        missing = terminated & (next_states.numbers < 0)
        return NamedColumn(np.where(missing, states.numbers, next_states.numbers), next_states.names)
    if not isinstance(next_states, np.ndarray) or next_states.ndim != 1 or next_states.dtype.kind not in "fO":
        return next_states
    last = np.flatnonzero(terminated)
    ends = last[[is_missing(value) for value in next_states[last]]] if len(last) else last
    if len(ends) == 0:
        return next_states
    filled = next_states.copy()
    filled[ends] = np.asarray(states)[ends]
    return filled


def _type(values: Any) -> str:
    return str(getattr(values, "dtype", type(values).__name__))


def _are_numbers(values: Any) -> bool:
    array = _plain(values)
    return isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "iufb"


def _plain(values: Any) -> Any:
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


def flags(piece: Mapping[str, Any], role: str, n: int) -> Bools:
    """(n,) truth values; False where the data has no such column."""
    if role not in piece:
        return np.zeros(n, dtype=bool)
    array = _plain(piece[role])
    if array.dtype == object and not any(map(is_missing, array)):
        array = np.array(array.tolist())
    return checked_flags(role, array)
