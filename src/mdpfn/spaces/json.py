"""Spaces, labels and values as JSON."""

import math
import reprlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from gymnasium import spaces

from mdpfn.errors import MdpfnError, shown
from mdpfn.spaces.binned import Binned

COUNTED: dict[str, Any] = {
    kind.__name__: kind for kind in (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Text)
}


def space_to_json(space: Any) -> Any:
    """A space that `codec_of` takes, as JSON; `space_from_json` makes it again."""
    match space:
        case None:
            return None
        case list():
            return labels_to_json(space)
        case int() | np.integer():
            return int(space)
        case Binned():
            return {"Binned": asdict(space)}
        case spaces.Discrete():
            plain = {"n": int(space.n), "start": int(space.start)}
            return {"Discrete": plain if space.dtype == np.int64 else plain | {"dtype": space.dtype.name}}
        case spaces.MultiDiscrete():
            start = np.broadcast_to(space.start, space.shape).tolist()
            return {"MultiDiscrete": {"nvec": space.nvec.tolist(), "dtype": space.dtype.name, "start": start}}
        case spaces.MultiBinary():
            return {"MultiBinary": {"n": space.n if isinstance(space.n, int) else list(space.shape)}}
        case spaces.Box():
            low, high = space.low.reshape(-1).tolist(), space.high.reshape(-1).tolist()
            return {"Box": {"low": low, "high": high, "shape": list(space.shape), "dtype": space.dtype.name}}
        case spaces.Tuple():
            return {"Tuple": {"spaces": [space_to_json(part) for part in space.spaces]}}
        case spaces.Dict():
            return {"Dict": {"spaces": [[key, space_to_json(part)] for key, part in space.spaces.items()]}}
        case spaces.Text():
            lengths = {"max_length": space.max_length, "min_length": space.min_length}
            return {"Text": lengths | {"charset": "".join(sorted(space.character_set))}}
    limit = "it must be a Box, Discrete, MultiDiscrete, MultiBinary, Text, Tuple or Dict space"
    raise MdpfnError("the space", space, limit, "save the agent's statistics instead")


def space_from_json(description: Any) -> Any:
    """The space that `space_to_json` described."""
    if isinstance(description, list):
        return labels_from_json(description)
    if not isinstance(description, dict):
        return description
    ((kind, options),) = description.items()
    if kind == "Binned":
        edges = tuple(None if part is None else tuple(part) for part in options["edges"])
        return Binned(tuple(options["names"]), edges, options["alone"])
    if kind == "Tuple":
        return spaces.Tuple([space_from_json(part) for part in options["spaces"]])
    if kind == "Dict":
        return spaces.Dict({key: space_from_json(part) for key, part in options["spaces"]})
    if kind == "Box":
        shape, dtype = tuple(options["shape"]), np.dtype(options["dtype"])
        low, high = (np.array(options[side], dtype=dtype).reshape(shape) for side in ("low", "high"))
        return spaces.Box(low, high, dtype=dtype.type)
    return COUNTED[kind](**options)


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
    raise MdpfnError("a state or action", shown(label), limit, "give those to the agent instead")


def value_of(space: Any, content: Any) -> Any:
    """The value of a space that JSON describes: arrays for arrays, tuples for tuples, all else as it is."""
    try:
        match space:
            case spaces.Box() | spaces.MultiDiscrete() | spaces.MultiBinary():
                return np.asarray(content, dtype=space.dtype)
            case spaces.Tuple():
                return tuple(value_of(part, piece) for part, piece in zip(space.spaces, content, strict=True))
            case spaces.Dict():
                return {key: value_of(part, content[key]) for key, part in space.spaces.items()}
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        limit = f"it must be of the space {space} ({type(error).__name__})"
        raise MdpfnError("the value", reprlib.repr(content), limit, "check it against the space") from None
    return _label(content)


def _label(content: Any) -> Any:
    """Lists become tuples, which can be told apart from batches."""
    return tuple(map(_label, content)) if isinstance(content, list) else content


def to_json(value: Any) -> Any:
    """A value as JSON: NumPy's numbers become Python's own, arrays and tuples lists, what is not finite None."""
    if isinstance(value, dict):
        return {str(key): to_json(part) for key, part in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return np.where(np.isfinite(value), value, np.array(None)).tolist()
    if isinstance(value, tuple | list | np.ndarray):
        return [to_json(part) for part in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
