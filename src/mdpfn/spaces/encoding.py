"""The encoding of states and actions as ids: codecs of Gymnasium spaces, numbers and lists of labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces

from mdpfn.errors import MdpfnError
from mdpfn.spaces.binned import Binned, BinnedCodec
from mdpfn.spaces.codec import Codec, DiscreteCodec, LabelCodec, ProductCodec

MOST_PIECES = 100_000  # of one value


@dataclass(frozen=True, eq=False)
class SpaceEncoding:
    """The spaces of an environment or of data, and the ids of their values."""

    observation_space: Any
    action_space: Any
    states: Codec
    actions: Codec

    @classmethod
    def of(
        cls,
        observation_space: Any,
        action_space: Any,
        *,
        largest: tuple[float, float] = (math.inf, math.inf),
        states: Sequence[Any] = (),
        actions: Sequence[Any] = (),
    ) -> SpaceEncoding:
        """Numbered as a whole up to the `largest` numbers of states and actions; after the labels seen before."""
        known = codec_of(observation_space, "observation", largest[0], states)
        chosen = codec_of(action_space, "action", largest[1], actions)
        return cls(observation_space, action_space, known, chosen)

    def find(self, observation: Any, action_mask: Any = None) -> int:
        """The id of an observation, without giving one to a new one: that is beyond the known ones."""
        return self.states.find(observation)


def codec_of(space: Any, field: str, largest: float, labels: Sequence[Any] = ()) -> Codec:
    """The codec of a space: a Gymnasium space, a number n for Discrete(n), a list of labels, or None.

    A finite space is numbered as a whole if it has at most `largest` values. Larger ones, spaces of other
    hashable values and None are numbered as their values appear, after the `labels` that appeared before.
    """
    if isinstance(space, Binned):
        return BinnedCodec(space, labels, field)
    if isinstance(space, list) and space:
        return LabelCodec(space, field, growing=False)
    if isinstance(space, int | np.integer) and not isinstance(space, bool) and space > 0:
        codec: Codec | None = DiscreteCodec(int(space), 0, field)
    else:
        codec = None if space is None else _finite(space, field)
    if codec is None or codec.n > largest:
        return LabelCodec(labels, field, within=codec)
    return codec


def _finite(space: Any, field: str) -> Codec | None:
    """The codec of all values of a Gymnasium space, None where they are hashable but cannot be counted."""
    match space:
        case spaces.Discrete():
            return DiscreteCodec(int(space.n), int(space.start), field)
        case spaces.MultiDiscrete():
            starts = np.broadcast_to(space.start, space.shape).reshape(-1).tolist()
            sizes = space.nvec.reshape(-1).tolist()
            parts = [DiscreteCodec(n, start, field) for n, start in zip(sizes, starts, strict=True)]
            return _array_codec(parts, space, field)
        case spaces.MultiBinary() if math.prod(space.shape) <= MOST_PIECES:
            return _array_codec([DiscreteCodec(2, 0, field)] * math.prod(space.shape), space, field)
        case spaces.Tuple():
            return _product([_finite(part, field) for part in space.spaces], range(len(space.spaces)), tuple, field)
        case spaces.Dict():
            keys = tuple(space.spaces)
            children = [_finite(part, field) for part in space.spaces.values()]
            return _product(children, keys, partial(_as_dict, keys), field)
        case spaces.Text():
            return None
    limit = "it must be finite (Discrete, MultiDiscrete, MultiBinary, or a Tuple or Dict of those)"
    remedy = "use mdpfn.Discretize (of a Dict or Tuple, after gymnasium's FlattenObservation), or --bins in a terminal"
    if field == "action":
        remedy = "make it one Box or one MultiDiscrete with gymnasium.wrappers.TransformAction"
    raise MdpfnError(f"the {field} space", space, limit, remedy)


def _product(
    parts: Sequence[Codec | None], keys: Sequence[Any], join: Callable[[Sequence[Any]], Any], field: str
) -> Codec | None:
    """The codec of a Tuple or Dict, None if one of its parts cannot be counted."""
    countable = [part for part in parts if part is not None]
    return ProductCodec(countable, partial(_pieces, keys), join, field) if len(countable) == len(parts) else None


def _pieces(keys: Sequence[Any], value: Any) -> list[Any]:
    if len(value) != len(keys):
        raise ValueError("too many or too few pieces")
    return [value[key] for key in keys]


def _as_dict(keys: Sequence[Any], pieces: Sequence[Any]) -> dict[Any, Any]:
    return dict(zip(keys, pieces, strict=True))


def _array_codec(parts: Sequence[Codec], space: spaces.MultiDiscrete | spaces.MultiBinary, field: str) -> Codec:
    """The codec of arrays of whole numbers; a batch has one more axis, in front."""
    return ProductCodec(parts, partial(_numbers, space.shape), partial(_as_array, space.shape, space.dtype), field)


def _numbers(shape: tuple[int, ...], value: Any) -> list[Any]:
    array = np.asarray(value)
    if array.shape == shape:
        return array.reshape(-1).tolist()
    if array.shape[1:] == shape:
        return list(array.reshape(len(array), -1).T)
    raise ValueError("an array of another shape")


def _as_array(shape: tuple[int, ...], dtype: Any, pieces: Sequence[Any]) -> Any:
    rows = np.array(pieces, dtype=dtype).T
    return rows.reshape(*rows.shape[:-1], *shape)
