"""Checks of what users pass in; what cannot be used raises an `MdpfnError` that says what to do about it."""

import inspect
import math
from collections import Counter
from numbers import Integral
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdpfn.arrays import Bools, Floats, Ints
from mdpfn.errors import MdpfnError, shown


def finite_floats(field: str, values: ArrayLike) -> Floats:
    """The values as an array of finite floats."""
    array = _array(field, values, np.float64)
    if not np.isfinite(array).all():
        bad = array[~np.isfinite(array)].flat[0]
        raise MdpfnError(field, f"{bad} in an entry", "every entry must be finite", "drop or replace it")
    return array


def check_choice(field: str, value: Any, choices: tuple[str, ...], remedy: str = "choose one of them") -> None:
    """Refuse a value that is none of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise MdpfnError(field, shown(value), f"it must be one of {', '.join(choices)}", remedy)


def a_path(value: Any) -> Path:
    """The value as a path."""
    try:
        return Path(value)
    except TypeError:
        raise MdpfnError("the path", shown(value), "it must be text or a Path", "give the name of a file") from None


def checked_ids(field: str, values: ArrayLike, n: int | None = None) -> Ints:
    """(k,) the values as ids, which are whole numbers from 0 to n − 1."""
    array = _array(field, values).reshape(-1)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind not in "iufb":
        raise MdpfnError(field, f"of type {array.dtype}", "ids are whole numbers", "encode them as integers first")
    fractional = array[~np.isfinite(array) | (array != np.floor(array))]
    if fractional.size:
        raise MdpfnError(
            field, f"{fractional[0]} in an entry", "ids are whole numbers", "encode them as integers first"
        )
    bad = array[(array < 0) | (array >= (np.iinfo(np.int64).max if n is None else n))]
    if bad.size:
        top = "" if n is None else f" to {n - 1}"
        raise MdpfnError(field, f"{bad[0]} in an entry", f"ids run from 0{top}", "check the size of the space")
    return array.astype(np.int64)


def checked_flags(field: str, values: ArrayLike) -> Bools:
    """(k,) the values as truth values, which may also be 0 and 1."""
    array = _array(field, values).reshape(-1)
    if array.dtype != bool and array.size and not (array.dtype.kind in "iuf" and ((array == 0) | (array == 1)).all()):
        raise MdpfnError(field, f"of type {array.dtype}", "it must be true or false for every transition", "correct it")
    return array.astype(bool)


def checked_mask(field: str, values: ArrayLike, n: int) -> Bools:
    """(n,) a mask from a mask of n entries or a list of ids below n."""
    array = _array(field, values)
    if array.dtype == bool and array.shape != (n,):
        limit = f"a mask needs the shape ({n},)"
        raise MdpfnError(field, f"a mask of shape {array.shape}", limit, "give one entry per state, or ids")
    mask = np.zeros(n, dtype=bool)
    mask[array if array.dtype == bool else checked_ids(field, values, n)] = True
    return mask


def checked_action_mask(values: ArrayLike, n_actions: int) -> tuple[bool, ...]:
    """A truth value for each action, at least one of them true."""
    array = _array("action_mask", values)
    if array.shape != (n_actions,):
        limit = f"there are {n_actions} actions, so the shape must be ({n_actions},)"
        raise MdpfnError("action_mask", f"of shape {array.shape}", limit, "give one truth value per action")
    mask = checked_flags("action_mask", array)
    if not mask.any():
        raise MdpfnError("action_mask", "all false", "at least one action must be allowed", "end the episode instead")
    return tuple(mask.tolist())


def masks_of(values: Any, n: int) -> list[Any]:
    """One mask for each of n observations, from one mask (or None) for all or from n of them."""
    if n_axes(values) != 2:
        return [values] * n
    if len(values) != n:
        limit = f"there are {n} observations"
        raise MdpfnError("action_mask", f"of {len(values)} rows", limit, "give one mask, or one per observation")
    return list(values)


def n_axes(values: Any) -> int:
    """How many axes an array, or nested lists that are one, have; −1 where they are ragged."""
    try:
        return np.ndim(values)
    except ValueError:
        return -1


def check_flag(field: str, flag: Any, remedy: str = "say how the episode ended") -> None:
    """Refuse a value that is neither True nor False."""
    if flag is not True and flag is not False and not isinstance(flag, np.bool_):
        raise MdpfnError(field, shown(flag), "it must be True or False", remedy)


def whole_number(field: str, value: object, low: int) -> int:
    """The value as an integer of at least `low`."""
    if not isinstance(value, Integral) or int(value) < low:
        raise MdpfnError(field, shown(value), f"it must be a whole number of at least {low}", "correct it")
    return int(value)


def check_range(field: str, value: tuple[float, float], least: float = 0) -> None:
    """Refuse a range (low, high) that is empty, or not above 0, or below `least` if that is given."""
    low, high = value
    if not 0 < low <= high or low < least:
        bound = f"{least} ≤" if least else "0 <"
        raise MdpfnError(field, value, f"it must be (low, high) with {bound} low ≤ high", "correct the range")


def check_types(config: object) -> None:
    """Refuse a configuration (a dataclass) one of whose fields holds a value of another type than declared."""
    for field, hint in get_type_hints(type(config)).items():
        value = getattr(config, field)
        if not is_of_type(value, hint):
            limit = f"it must be of type {inspect.formatannotation(hint)}"
            raise MdpfnError(field, shown(value), limit, "correct the configuration")


def _array(field: str, values: ArrayLike, dtype: type | None = None) -> NDArray[Any]:
    try:
        return np.asarray(values, dtype=dtype)
    except (TypeError, ValueError, OverflowError):
        raise MdpfnError(field, shown(values), "it must be an array of numbers", "correct it") from None


def is_of_type(value: object, hint: Any) -> bool:
    """Whether a value is of a type, down to its parts; floats must be finite."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind is Literal:
        return value in parts
    if kind is UnionType:
        return any(is_of_type(value, part) for part in parts)
    if kind is tuple and parts[-1] is Ellipsis:
        return isinstance(value, tuple) and all(is_of_type(item, parts[0]) for item in value)
    if kind is tuple:
        return isinstance(value, tuple) and len(value) == len(parts) and all(map(is_of_type, value, parts))
    if kind is list:
        return isinstance(value, list) and all(is_of_type(item, parts[0]) for item in value)
    if kind is Counter:
        return isinstance(value, Counter) and is_of_type(dict(value), dict[parts[0], int])  # type: ignore[valid-type]
    if kind is dict:
        return isinstance(value, dict) and all(
            is_of_type(k, parts[0]) and is_of_type(v, parts[1]) for k, v in value.items()
        )
    if isinstance(value, bool):
        return hint is bool
    if hint is float:
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, hint)
