"""Immutable parts of a plan as named arrays, and back: dataclasses of arrays, numbers, trees and each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

P = TypeVar("P")


def part_to_arrays(part: Any, prefix: str) -> dict[str, NDArray[Any]]:
    """Every field as an array, under its name after the `prefix`; what is None is left out."""
    arrays: dict[str, NDArray[Any]] = {}
    for field in fields(part):
        value, name = getattr(part, field.name), f"{prefix}{field.name}"
        if is_dataclass(value):
            arrays |= part_to_arrays(value, f"{name}.")
        elif value is not None:
            arrays[name] = np.array(value.data if isinstance(value, scipy.spatial.cKDTree) else value)
    return arrays


def part_from_arrays(kind: type[P], arrays: Mapping[str, NDArray[Any]], prefix: str) -> P:
    """The part that `part_to_arrays` took apart."""
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type]
        name, hint = f"{prefix}{field.name}", _main_type(hints[field.name])
        nested = isinstance(hint, type) and is_dataclass(hint)
        there = any(other.startswith(f"{name}.") for other in arrays) if nested else name in arrays
        if not there:
            if type(None) not in get_args(hints[field.name]):
                raise KeyError(name)
            values[field.name] = None
        elif nested:
            values[field.name] = part_from_arrays(hint, arrays, f"{name}.")
        elif not np.isfinite(arrays[name]).all() or arrays[name].dtype.itemsize != 8:
            raise ValueError(f"{name} is not finite")
        elif hint in (int, float):
            values[field.name] = hint(arrays[name])
        else:
            values[field.name] = (
                scipy.spatial.cKDTree(arrays[name]) if hint is scipy.spatial.cKDTree else arrays[name].copy()
            )
    return kind(**values)


def _main_type(hint: Any) -> Any:
    """The type of what may also be None."""
    if get_origin(hint) is UnionType:
        return next(part for part in get_args(hint) if part is not type(None))
    return hint
