"""The sufficient statistic: one meaning, however it was gathered."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from mdpfn.errors import MdpfnError
from mdpfn.evidence.statistics import PairTable, Statistics
from tests.strategies import seeds


def random_transitions(seed: int, n: int = 60) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    return (
        rng.integers(6, size=n),
        rng.integers(3, size=n),
        rng.normal(size=n),
        rng.integers(6, size=n),
        rng.random(n) < 0.1,
    )


def assert_same(a: Statistics, b: Statistics) -> None:
    for left, right in zip(a.dense_counts(), b.dense_counts(), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-12)
    assert a.terminal == b.terminal
    assert a.n_transitions == b.n_transitions
    assert a.reward_scale == pytest.approx(b.reward_scale)


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_one_by_one_at_once_and_merged_are_the_same(seed: int) -> None:
    columns = random_transitions(seed)
    one_by_one = Statistics(6, 3)
    for s, a, r, t, end in zip(*(c.tolist() for c in columns), strict=True):
        one_by_one.update(s, a, r, t, end)
    assert_same(one_by_one, Statistics.from_transitions(*columns, n_states=6, n_actions=3))
    half = [Statistics.from_transitions(*(c[i::2] for c in columns), n_states=6, n_actions=3) for i in range(2)]
    assert_same(one_by_one, half[0].merge(half[1]))


def test_dense_z_follows_the_definition() -> None:
    history = Statistics.from_transitions([0, 0, 0, 1], [1, 1, 1, 0], [2.0, 4.0, 0.0, -1.0], [1, 1, 0, 1], n_states=2)
    z = history.table().dense_z()
    assert z.shape == (4, 4)
    np.testing.assert_allclose(z[0], [0, 0, 0.5, 0.5])  # unvisited: no count, no reward, a uniform row
    np.testing.assert_allclose(z[1], [np.log(4), 2 / 4, 1 / 3, 2 / 3])  # rewards divided by the largest seen, 4
    np.testing.assert_allclose(z[2], [np.log(2), -1 / 4, 0, 1])


def test_counts_round_trip() -> None:
    history = Statistics.from_transitions(*random_transitions(5), n_states=6, n_actions=3)
    again = Statistics.from_counts(*history.dense_counts(), terminal=history.terminal_mask())
    assert again.terminal == history.terminal
    for left, right in zip(again.dense_counts(), history.dense_counts(), strict=True):
        np.testing.assert_array_equal(left, right)


def test_reward_scale_is_the_largest_seen_and_one_before_any() -> None:
    history = Statistics(2, 1)
    assert history.reward_scale == 1
    history.update(0, 0, 0.0, 1)
    assert history.reward_scale == 1
    history.update(0, 0, -3.0, 1)
    history.update(0, 0, 2.0, 1)
    assert history.reward_scale == 3


def test_arrays_follow_later_updates() -> None:
    history = Statistics(3, 2)
    history.update(0, 0, 1.0, 1)
    assert len(history.table().pair) == 1
    history.update(2, 1, 1.0, 0)
    np.testing.assert_array_equal(history.table().pair, [0, 5])


def test_concatenation_keeps_every_mdp_apart() -> None:
    a = Statistics.from_transitions([0], [0], [1.0], [1], n_states=3, n_actions=2)
    b = Statistics.from_transitions([1, 1], [2, 2], [5.0, 5.0], [0, 1], n_states=2, n_actions=3)
    both = PairTable.concatenate([a.table(), Statistics(4, 1).table(), b.table()])
    for i, part in enumerate([a, Statistics(4, 1), b]):
        np.testing.assert_array_equal(both.dense_z(i), part.table().dense_z())


@pytest.mark.parametrize("terminated", [["False", "False"], [np.nan, 0.0], [2, 0]])
def test_flags_must_be_flags(terminated):
    with pytest.raises(MdpfnError, match="terminated is of type"):
        Statistics.from_transitions([0, 1], [0, 0], [0, 1], [1, 0], terminated)


@pytest.mark.parametrize("sizes", [(1, 1), (2, 0)])
def test_statistics_do_not_shrink(sizes):
    with pytest.raises(MdpfnError, match="already"):
        Statistics.from_transitions([0, 1], [0, 0], [0, 1], [1, 0]).resized(*sizes)
