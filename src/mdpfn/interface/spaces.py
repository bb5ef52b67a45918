"""The codec of a Gymnasium space, and spaces as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from mdpfn.errors import MdpfnError
from mdpfn.interface.codec import Codec, DiscreteCodec, LabelCodec, ProductCodec


def codec_of(space: Any, field: str, largest: int, labels: Sequence[Any] = ()) -> Codec:
    """The codec of a space: a Gymnasium space, a number n for Discrete(n), a list of labels, or None.

    A finite space is numbered as a whole if it has at most `largest` values. Larger ones, spaces of other
    hashable values and None are numbered as their values appear, after the `labels` that appeared before.
    """
    if isinstance(space, list) and space:
        return LabelCodec(space, field, growing=False)
    if isinstance(space, int | np.integer) and not isinstance(space, bool) and space > 0:
        return DiscreteCodec(int(space), 0, field)
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
        case spaces.MultiBinary():
            return _array_codec([DiscreteCodec(2, 0, field)] * math.prod(space.shape), space, field)
        case spaces.Tuple():
            return _product([_finite(part, field) for part in space.spaces], range(len(space.spaces)), tuple, field)
        case spaces.Dict():
            keys = tuple(space.spaces)
            children = [_finite(part, field) for part in space.spaces.values()]
            return _product(children, keys, lambda pieces: dict(zip(keys, pieces, strict=True)), field)
        case spaces.Text():
            return None
    limit = "it must be finite (Discrete, MultiDiscrete, MultiBinary, or a Tuple or Dict of those)"
    remedy = "use mdpfn.Discretize (of a Dict or Tuple, after gymnasium's FlattenObservation), or --bins in a terminal"
    raise MdpfnError(f"the {field} space", space, limit, remedy)


def _product(
    parts: Sequence[Codec | None], keys: Sequence[Any], join: Callable[[Sequence[Any]], Any], field: str
) -> Codec | None:
    """The codec of a Tuple or Dict, None if one of its parts cannot be counted."""

    def split(value: Any) -> list[Any]:
        if len(value) != len(keys):
            raise ValueError("too many or too few pieces")
        return [value[key] for key in keys]

    countable = [part for part in parts if part is not None]
    return ProductCodec(countable, split, join, field) if len(countable) == len(parts) else None


def _array_codec(parts: Sequence[Codec], space: spaces.MultiDiscrete | spaces.MultiBinary, field: str) -> Codec:
    """The codec of arrays of whole numbers; a batch has one more axis, in front."""
    shape = space.shape

    def split(value: Any) -> list[Any]:
        array = np.asarray(value)
        if array.shape == shape:
            return array.reshape(-1).tolist()
        if array.shape[1:] == shape:
            return list(array.reshape(len(array), -1).T)
        raise ValueError("an array of another shape")

    def join(pieces: Sequence[Any]) -> Any:
        rows = np.array(pieces, dtype=space.dtype).T
        return rows.reshape(*rows.shape[:-1], *shape)

    return ProductCodec(parts, split, join, field)


def space_to_json(space: Any) -> Any:
    """A space that `codec_of` takes, as JSON; `space_from_json` makes it again."""
    match space:
        case None:
            return None
        case list():
            return labels_to_json(space)
        case int() | np.integer():
            return int(space)
        case spaces.Discrete():
            plain = {"n": int(space.n), "start": int(space.start)}
            return {"Discrete": plain if space.dtype == np.int64 else plain | {"dtype": space.dtype.name}}
        case spaces.MultiDiscrete():
            start = np.broadcast_to(space.start, space.shape).tolist()
            return {"MultiDiscrete": {"nvec": space.nvec.tolist(), "dtype": space.dtype.name, "start": start}}
        case spaces.MultiBinary():
            return {"MultiBinary": {"n": space.n if isinstance(space.n, int) else list(space.shape)}}
        case spaces.Tuple():
            return {"Tuple": {"spaces": [space_to_json(part) for part in space.spaces]}}
        case spaces.Dict():
            return {"Dict": {"spaces": [[key, space_to_json(part)] for key, part in space.spaces.items()]}}
        case spaces.Text():
            lengths = {"max_length": space.max_length, "min_length": space.min_length}
            return {"Text": lengths | {"charset": "".join(sorted(space.character_set))}}
    limit = "it must be a Discrete, MultiDiscrete, MultiBinary, Text, Tuple or Dict space"
    raise MdpfnError("the space", space, limit, "save the agent's statistics instead")


def space_from_json(description: Any) -> Any:
    """The space that `space_to_json` described."""
    if isinstance(description, list):
        return labels_from_json(description)
    if not isinstance(description, dict):
        return description
    ((kind, options),) = description.items()
    if kind == "Tuple":
        return spaces.Tuple([space_from_json(part) for part in options["spaces"]])
    if kind == "Dict":
        return spaces.Dict({key: space_from_json(part) for key, part in options["spaces"]})
    return getattr(spaces, kind)(**options)


def labels_to_json(labels: Sequence[Any]) -> list[Any]:
    """Labels as JSON: text, numbers, truth values, None, and tuples of those."""
    return [_label_to_json(label) for label in labels]


def labels_from_json(labels: Sequence[Any]) -> list[Any]:
    """The labels that `labels_to_json` described."""
    return [tuple(labels_from_json(label)) if isinstance(label, list) else label for label in labels]


def _label_to_json(label: Any) -> Any:
    if isinstance(label, tuple):
        return labels_to_json(label)
    value = label.item() if isinstance(label, np.generic) else label
    if value is None or isinstance(value, str | int | float):
        return value
    limit = "only text, numbers and tuples of these can be saved"
    raise MdpfnError("a state or action", repr(label), limit, "give those to the agent instead")
