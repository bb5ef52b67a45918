"""Observations, actions and explanations as JSON, in both directions."""

from __future__ import annotations

import math
import reprlib
from typing import Any

import numpy as np
from gymnasium import spaces

from mdpfn.errors import MdpfnError
from mdpfn.export import plain


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
    """A value as JSON; null in the place of what is no number."""
    value = plain(value)
    if isinstance(value, dict):
        return {key: to_json(part) for key, part in value.items()}
    if isinstance(value, list):
        return [to_json(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
