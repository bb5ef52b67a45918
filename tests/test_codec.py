"""Spaces ↔ ids: every finite space is numbered without gaps, and what is not of a space is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from mdpfn.errors import MdpfnError
from mdpfn.spaces.codec import Codec, LabelCodec
from mdpfn.spaces.encoding import codec_of
from mdpfn.spaces.json import space_from_json, space_to_json

FINITE = {
    "discrete": (spaces.Discrete(5), 5),
    "shifted": (spaces.Discrete(4, start=-2), 4),
    "multi-discrete": (spaces.MultiDiscrete([2, 3, 4]), 24),
    "matrix": (spaces.MultiDiscrete([[2, 3], [1, 2]]), 12),
    "shifted multi-discrete": (spaces.MultiDiscrete([2, 3], start=[5, -1]), 6),
    "multi-binary": (spaces.MultiBinary(3), 8),
    "binary matrix": (spaces.MultiBinary([2, 2]), 16),
    "tuple": (spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2)]), 12),
    "dict": (spaces.Dict({"b": spaces.Discrete(2, start=1), "a": spaces.MultiDiscrete([2, 2])}), 8),
    "nested": (spaces.Tuple([spaces.Dict({"x": spaces.Discrete(2)}), spaces.Tuple([spaces.Discrete(3)])]), 6),
}


def made(space: Any) -> Codec:
    return codec_of(space, "observation", largest=1000)


def same(left: Any, right: Any) -> bool:
    return bool(np.array_equal(left, right)) if isinstance(left, np.ndarray) else json_like(left) == json_like(right)


def json_like(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: json_like(part) for key, part in value.items()}
    return [json_like(part) for part in value] if isinstance(value, tuple) else np.asarray(value).tolist()


@pytest.mark.parametrize(("space", "size"), FINITE.values(), ids=FINITE)
def test_ids_and_values_are_one_to_one(space: Any, size: int) -> None:
    codec = made(space)
    assert codec.n == size
    values = [codec.decode(number) for number in range(size)]
    assert [codec.encode(value) for value in values] == list(range(size))
    assert all(space.contains(np.int64(v) if isinstance(v, int) else v) for v in values)


@pytest.mark.parametrize(("space", "size"), FINITE.values(), ids=FINITE)
def test_batches_of_vector_environments_are_the_values_in_them(space: Any, size: int) -> None:
    codec = made(space)
    values = [codec.decode(number) for number in range(min(size, 4))]
    batch = concatenate(space, values, create_empty_array(space, len(values)))
    assert codec.is_batch(batch)
    assert not codec.is_batch(values[0])
    np.testing.assert_array_equal(codec.encode_many(batch), range(len(values)))
    assert [codec.encode(value) for value in codec.unbatch(batch)] == list(range(len(values)))
    assert batch_space(space, len(values)).contains(codec.batch(values))


@pytest.mark.parametrize(("space", "size"), FINITE.values(), ids=FINITE)
def test_spaces_survive_json(space: Any, size: int) -> None:
    again = space_from_json(json.loads(json.dumps(space_to_json(space))))
    assert again == space
    assert all(same(made(again).decode(number), made(space).decode(number)) for number in range(size))


def test_whatever_is_hashable_is_numbered_as_it_appears() -> None:
    codec = made(None)
    assert [codec.encode(label) for label in ("b", ("a", 1), "b", 7)] == [0, 1, 0, 2]
    assert codec.n == 3
    assert codec.decode(1) == ("a", 1)


def test_a_space_too_large_is_numbered_as_it_appears() -> None:
    codec = made(spaces.MultiDiscrete([100] * 12))
    assert isinstance(codec, LabelCodec)
    first, second = np.arange(12), np.arange(12)[::-1]
    assert [codec.encode(value) for value in (first, second, first)] == [0, 1, 0]
    np.testing.assert_array_equal(codec.decode(1), second)


def test_numbers_and_lists_are_short_for_spaces() -> None:
    assert made(3).decode(2) == 2
    assert made(["wait", "repair"]).encode("repair") == 1
    with pytest.raises(MdpfnError, match="one of"):
        made(["wait", "repair"]).encode("sell")


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (spaces.Discrete(3), 3),
        (spaces.Discrete(3), -1),
        (spaces.Discrete(3), 1.0),
        (spaces.Discrete(3), "1"),
        (spaces.Discrete(3), None),
        (spaces.Discrete(3), np.array([1, 2])),
        (spaces.Discrete(3, start=2), 1),
        (spaces.MultiDiscrete([2, 3]), [1, 3]),
        (spaces.MultiDiscrete([2, 3]), [1]),
        (spaces.MultiDiscrete([2, 3]), [0.5, 1]),
        (spaces.MultiBinary(2), [0, 2]),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]), (0,)),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]), (0, 1, 0)),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]), 0),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"b": 0}),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"a": 0, "b": 0}),
        (spaces.Dict({"a": spaces.Discrete(2)}), 0),
        (None, [1, 2]),
        (None, {"a": 1}),
        (None, float("nan")),
    ],
)
def test_values_outside_a_space_are_refused(space: Any, value: Any) -> None:
    with pytest.raises(MdpfnError) as caught:
        made(space).encode(value)
    assert caught.value.field == "observation"


@pytest.mark.parametrize(
    "space", [spaces.Box(0, 1), spaces.Tuple([spaces.Box(0, 1), spaces.Discrete(2)]), 0, -1, 2.5, []]
)
def test_spaces_that_are_not_finite_are_refused(space: Any) -> None:
    with pytest.raises(MdpfnError, match="finite"):
        made(space)
