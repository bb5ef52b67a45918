"""Statistics on disk and in larger spaces: nothing observed is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mdpfn.errors import MdpfnError
from mdpfn.evidence.statistics import Statistics
from mdpfn.storage import write_bundle


def some_statistics() -> Statistics:
    rng = np.random.default_rng(3)
    history = Statistics(5, 3)
    for _ in range(80):
        state, action, successor = rng.integers([5, 3, 5]).tolist()
        history.update(state, action, float(rng.normal()), successor, terminated=successor == 4)
    return history


def assert_identical(left: Statistics, right: Statistics) -> None:
    for name, values in vars(left.table()).items():
        np.testing.assert_array_equal(values, getattr(right.table(), name), err_msg=name)
    assert (left.terminal, left.n_transitions) == (right.terminal, right.n_transitions)
    assert (left.reward_min, left.reward_max) == (right.reward_min, right.reward_max)


def test_what_was_saved_is_loaded_bit_by_bit(tmp_path: Path) -> None:
    history = some_statistics()
    history.save(tmp_path / "history")
    assert_identical(history, Statistics.load(tmp_path / "history"))


def test_nothing_observed_can_be_saved_too(tmp_path: Path) -> None:
    Statistics(2, 2).save(tmp_path / "empty")
    assert_identical(Statistics(2, 2), Statistics.load(tmp_path / "empty"))


def test_a_bundle_of_something_else_is_refused(tmp_path: Path) -> None:
    write_bundle(tmp_path / "other", {}, {"kind": "model"})
    with pytest.raises(MdpfnError, match="must hold statistics"):
        Statistics.load(tmp_path / "other")


def test_larger_spaces_hold_the_same_observations() -> None:
    history = some_statistics()
    larger = history.resized(7, 4)
    counts, sums = larger.dense_counts()
    for before, after in zip(history.dense_counts(), (counts[:5, :3, :5], sums[:5, :3]), strict=True):
        np.testing.assert_array_equal(before, after)
    assert counts.sum() == history.n_transitions == larger.n_transitions
    assert larger.terminal == history.terminal


def test_terminations_are_counted_the_same_however_they_come_in() -> None:
    columns = [0, 0, 1], [0, 0, 1], [1.0, 1.0, 0.0], [1, 1, 1], [True, False, True]
    at_once = Statistics.from_transitions(*columns)
    one_by_one = Statistics(2, 2)
    for transition in zip(*columns, strict=True):
        one_by_one.update(*transition)
    merged = Statistics(2, 2).merge(one_by_one)
    for history in (at_once, one_by_one, merged):
        np.testing.assert_array_equal(history.table().n_terminated, [1, 1])
    from_counts = Statistics.from_counts(*at_once.dense_counts(), terminal=[1])
    np.testing.assert_array_equal(from_counts.table().n_terminated, [2, 1])
