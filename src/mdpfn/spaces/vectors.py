"""Vectors: observations of boxes, alone or in a Dict or Tuple, as one list of numbers; actions to choose from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from mdpfn.arrays import Floats
from mdpfn.errors import MdpfnError, shown
from mdpfn.evidence.smoothed.config import SmootherConfig
from mdpfn.evidence.smoothed.evidence import LARGEST_NUMBER, nearest_codes
from mdpfn.spaces.codec import Codec
from mdpfn.spaces.encoding import SpaceEncoding, codec_of
from mdpfn.spaces.squashed import SquashedGaussian

MOST_DIMENSIONS = 20
MOST_ACTIONS = 64
ON_GRID = 1e-6  # of the range of an action: so near, and it is the same


def is_vector_space(space: Any) -> bool:
    """Whether observations of a space are vectors: it is a Box, or a Dict or Tuple with a Box in it."""
    return isinstance(space, spaces.Box) or any(is_vector_space(part) for _, part in _parts(space))


@dataclass(frozen=True, eq=False)
class VectorEncoding(SpaceEncoding):
    """The spaces of an environment or of data with vectors for observations, and what its actions look like."""

    states: VectorCodec
    codes: Floats  # (actions, p) what the smoother sees of each action

    @classmethod
    def of_vectors(cls, observation_space: Any, action_space: Any, config: SmootherConfig) -> VectorEncoding:
        """Checked: at most `MOST_DIMENSIONS` numbers, and actions that can be listed."""
        states = VectorCodec(observation_space)
        if isinstance(action_space, spaces.Box):
            grid = GridCodec(action_space, config)
            return cls(observation_space, action_space, states, grid, grid.codes)
        actions = codec_of(action_space, "action", MOST_ACTIONS)
        if not 0 < actions.n <= MOST_ACTIONS:
            limit = (
                f"with vectors for observations there may be {MOST_ACTIONS} actions to choose from, known beforehand"
            )
            raise MdpfnError("the action space", action_space, limit, "give a smaller space, or a Box")
        return cls(observation_space, action_space, states, actions, np.eye(actions.n))


class VectorCodec(Codec):
    """Observations as vectors (d,) of float64: boxes as they are, discrete parts as ones and zeros."""

    n, field = 0, "observation"

    def __init__(self, space: Any) -> None:
        self.space, self.n_dims = space, _size(space)
        if self.n_dims > MOST_DIMENSIONS:
            limit = f"vectors may have {MOST_DIMENSIONS} numbers, and images are beyond what can be learned in context"
            raise MdpfnError("the observation space", space, limit, "give fewer features, or use mdpfn.Discretize")
        if self.n_dims == 0:
            raise MdpfnError("the observation space", space, "it must hold at least one number", "give another one")

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """(d,) the lowest and the highest of every number, as the space says."""
        flat: Any = spaces.flatten_space(self.space)
        return flat.low.astype(np.float64), flat.high.astype(np.float64)

    def encode(self, value: Any) -> Any:
        """The numbers of an observation, which must be finite and of the shape of the space."""
        try:
            vector = np.concatenate(list(_flat(self.space, value)))
        except (TypeError, ValueError, OverflowError, KeyError, IndexError):
            raise self.outside(value, f"it must be of {self.space}") from None
        if not (np.abs(vector) <= LARGEST_NUMBER).all():
            limit = f"every number of it must be finite, at most {LARGEST_NUMBER:g} in size"
            raise MdpfnError(self.field, shown(value), limit, "mend the environment, or leave that step out")
        return vector

    def encode_many(self, values: Any) -> Any:
        """(k, d) the vectors of a batch."""
        if isinstance(self.space, spaces.Box) and isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
            rows = values.reshape(len(values), int(np.prod(values.shape[1:]))).astype(np.float64)
            if values.shape[1:] == self.space.shape and (np.abs(rows) <= LARGEST_NUMBER).all():
                return rows
        vectors = [self.encode(value) for value in self.unbatch(values)]
        return np.stack(vectors) if vectors else np.zeros((0, self.n_dims))

    def decode(self, number: int) -> Any:
        """Vectors have no numbers."""
        raise self.outside(number, "vectors are not numbered")

    def is_batch(self, value: Any) -> bool:
        """Whether its parts have one axis more than those of the space."""
        try:
            part, first = _first(self.space, value)
            return np.ndim(first) == len(part.shape) + 1
        except (TypeError, KeyError, IndexError, ValueError):
            return False

    def unbatch(self, values: Any) -> list[Any]:
        """One observation per entry."""
        if isinstance(values, list):
            return values
        try:
            return [_row(self.space, values, i) for i in range(len(_first(self.space, values)[1]))]
        except (TypeError, KeyError, IndexError):
            raise self.outside(values, f"it must be a batch of {self.space}") from None

    def batch(self, values: list[Any]) -> Any:
        """Single observations side by side."""
        return np.stack([np.asarray(value) for value in values])


class GridCodec(Codec):
    """Points of a Box of actions: a grid; where that is too large a coarser one, then axes and some corners.

    An action that is none of them has its code in [−1, 1]^m in the place of a number.
    """

    field = "action"

    def __init__(self, space: spaces.Box, config: SmootherConfig) -> None:
        self.space = space
        self._low, self._high = space.low.reshape(-1).astype(np.float64), space.high.reshape(-1).astype(np.float64)
        if not np.isfinite(self._high - self._low).all() or space.dtype.kind not in "fiu":
            limit = "to choose from it, its bounds must be finite"
            remedy = "leave ClipAction out, or declare them with gymnasium.wrappers.TransformAction(env, f, Box(…))"
            raise MdpfnError("the action space", space, limit, remedy)
        self.codes = _candidates(len(self._low), config)
        if space.dtype.kind in "iu" or (self._low == self._high).any():  # some candidates are the same action
            self.codes = np.unique(self._codes_of(self._points_of(self.codes)), axis=0)
        self.n = len(self.codes)

    def encode(self, value: Any) -> Any:
        """The number of an action, or its code if it is between those that have one."""
        try:
            point = np.asarray(value, dtype=np.float64).reshape(self.space.shape).reshape(-1)
        except (TypeError, ValueError):
            raise self.outside(value, f"it must be of {self.space}") from None
        if not np.isfinite(point).all():
            raise self.outside(value, "every number of it must be finite")
        code = self._codes_of(point)
        number = int(nearest_codes(code[None], self.codes)[0])
        return number if np.abs(self.codes[number] - code).max() < ON_GRID else code

    def codes_of(self, values: Any) -> Floats:
        """(k, m) the codes of many actions."""
        points = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
        if points.shape[1] != len(self._low) or not np.isfinite(points).all():
            raise self.outside(values, f"they must be finite and of {self.space}")
        return self._codes_of(points)

    def _codes_of(self, points: Floats) -> Floats:
        width = np.where(self._high > self._low, self._high - self._low, 1.0)
        return np.clip(2 * (points - self._low) / width - 1, -1, 1)

    def decode(self, number: int) -> Any:
        """The action with this number."""
        return self.shaped(self._points_of(self.codes[number]))

    def shaped(self, point: Floats) -> Any:
        """A point as an action of the space."""
        if self.space.dtype.kind in "iu":
            point = np.round(point)
        return point.astype(self.space.dtype).reshape(self.space.shape)

    def distribution(self, policy: Floats) -> SquashedGaussian:
        """The distribution of all actions of the box, given a policy over the points."""
        return SquashedGaussian.of_policy(self.codes, policy, self._low, self._high)

    def _points_of(self, codes: Floats) -> Floats:
        points: Floats = self._low + (self._high - self._low) * (codes + 1) / 2
        return np.round(points) if self.space.dtype.kind in "iu" else points

    def is_batch(self, value: Any) -> bool:
        """Whether it has one axis more than an action."""
        return np.ndim(value) == len(self.space.shape) + 1

    def unbatch(self, values: Any) -> list[Any]:
        """One action per entry."""
        return list(values)

    def batch(self, values: list[Any]) -> Any:
        """(k, …) actions side by side."""
        return np.stack(values) if values else np.zeros((0, *self.space.shape), self.space.dtype)


def _candidates(m: int, config: SmootherConfig) -> Floats:
    """(actions, m) codes in [−1, 1]."""
    n = config.grid
    while n > 3 and n**m > config.max_actions:
        n -= 2
    if n**m <= config.max_actions:
        return np.stack(np.meshgrid(*[np.linspace(-1, 1, n)] * m, indexing="ij"), -1).reshape(-1, m)
    axes = np.concatenate([np.zeros((1, m)), np.eye(m), -np.eye(m)])
    n_corners = max(config.max_actions - len(axes), 4)
    corners = np.random.default_rng(0).choice([-1.0, 1.0], (n_corners, m))
    return np.unique(np.concatenate([axes, corners]), axis=0)


def _parts(space: Any) -> list[tuple[Any, Any]]:
    """The parts of a Dict or Tuple by their keys; none of any other space."""
    if isinstance(space, spaces.Dict):
        return list(space.spaces.items())
    return list(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else []


def _size(space: Any) -> int:
    """How many numbers an observation has."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return sum(_size(part) for _, part in _parts(space))
    if isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        return int(spaces.flatdim(space))
    limit = "beside boxes there may be Discrete, MultiDiscrete and MultiBinary parts"
    raise MdpfnError("the observation space", space, limit, "leave the others out, or encode them")


def _flat(space: Any, value: Any) -> Iterator[Floats]:
    """The numbers of an observation, part by part; raises if its form is another one."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        if len(value) != len(_parts(space)):
            raise ValueError("too many or too few parts")
        for key, part in _parts(space):
            yield from _flat(part, value[key])
        return
    array = np.asarray(value, dtype=np.float64)
    if array.shape != space.shape:
        raise ValueError("another shape")
    if isinstance(space, spaces.Box):
        yield array.reshape(-1)
        return
    whole = np.asarray(value)
    if not space.contains(whole.astype(space.dtype) if whole.ndim else space.dtype.type(whole)):
        raise ValueError("not in the space")
    flat: Any = spaces.flatten(space, whole.astype(np.int64) if whole.ndim else np.int64(whole))
    yield np.asarray(flat, dtype=np.float64)


def _first(space: Any, value: Any) -> tuple[Any, Any]:
    """The first simple part of a space, and of a value of it."""
    while isinstance(space, spaces.Dict | spaces.Tuple):
        key, space = _parts(space)[0]
        value = value[key]
    return space, value


def _row(space: Any, values: Any, i: int) -> Any:
    """One observation of a batch."""
    if isinstance(space, spaces.Dict):
        return {key: _row(part, values[key], i) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_row(part, piece, i) for part, piece in zip(space.spaces, values, strict=True))
    return values[i]


def vectors_of(values: Any) -> Floats | None:
    """(k, d) the values as vectors, None if they are none: numbers with a point, several to a row."""
    try:
        array = np.asarray(values)
    except ValueError:
        return None
    return array.astype(np.float64) if array.ndim == 2 and array.dtype.kind == "f" else None
