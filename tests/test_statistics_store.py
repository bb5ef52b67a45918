"""Statistics on disk and in larger spaces: nothing observed is lost."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from mdpfn.errors import MdpfnError
from mdpfn.evidence import PairTable, Statistics, Transition
from mdpfn.evidence.store import statistics_from_arrays, statistics_to_arrays
from mdpfn.storage import write_bundle


def some_statistics() -> Statistics:
    rng = np.random.default_rng(3)
    history = Statistics(5, 3)
    for _ in range(80):
        state, action, successor = rng.integers([5, 3, 5]).tolist()
        history.add(Transition(state, action, float(rng.normal()), successor, terminated=successor == 4))
    return history


def assert_identical(left: Statistics, right: Statistics) -> None:
    for field in fields(PairTable):
        values, others = (getattr(one.table(), field.name) for one in (left, right))
        np.testing.assert_array_equal(values, others, err_msg=field.name)
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


def test_saving_replaces_what_was_there(tmp_path: Path) -> None:
    history = some_statistics()
    for _ in range(2):
        history.add(Transition(0, 0, 7.0, 1))
        history.save(tmp_path / "history")
        assert_identical(history, Statistics.load(tmp_path / "history"))
    assert [path.name for path in tmp_path.iterdir()] == ["history"]


def test_what_is_loaded_is_as_large_as_what_was_seen(tmp_path: Path) -> None:
    """Not as its spaces: nothing has an entry for every pair."""
    history = Statistics(10**15, 10)
    history.add(Transition(10**14, 7, 1.0, 3))
    history.save(tmp_path / "history")
    assert_identical(history, Statistics.load(tmp_path / "history"))
    assert (tmp_path / "history").stat().st_size < 10_000


def test_statistics_of_the_first_format_load_too() -> None:
    """They have neither sums of squares nor durations: rewards count as if they did not vary."""
    arrays = statistics_to_arrays(some_statistics())
    old = {
        name: arrays[name] for name in arrays.keys() - {"reward_square_sum", "duration", "forbidden", "forbidden_mdp"}
    }
    z = statistics_from_arrays(old).table()
    np.testing.assert_allclose(z.reward_square_sum, z.n_visits * z.mean_reward**2)
    for name in ("pair", "n_visits", "reward_sum", "successor", "transition_count", "n_terminated"):
        np.testing.assert_array_equal(getattr(z, name), arrays[name], err_msg=name)


def changed(array: np.ndarray, place: int, value: float) -> np.ndarray:
    array = array.copy()
    array[place] = value
    return array


CRAFTED = {
    "no pairs": lambda a: {"pair": None},
    "no terminal states": lambda a: {"terminal": None},
    "a pair beyond the last": lambda a: {"pair": changed(a["pair"], -1, 15)},
    "a negative pair": lambda a: {"pair": changed(a["pair"], 0, -1)},
    "a pair twice": lambda a: {"pair": changed(a["pair"], 1, a["pair"][0])},
    "pairs out of order": lambda a: {"pair": a["pair"][::-1].copy()},
    "pairs that are floats": lambda a: {"pair": a["pair"].astype(np.float64)},
    "pairs in a matrix": lambda a: {"pair": a["pair"][:, None]},
    "rewards in a matrix": lambda a: {"reward_sum": a["reward_sum"][:, None]},
    "a pair less": lambda a: {"pair": a["pair"][1:]},
    "a reward less": lambda a: {"reward_sum": a["reward_sum"][1:]},
    "a square below zero": lambda a: {"reward_square_sum": -1 - a["reward_square_sum"]},
    "a square more": lambda a: {"reward_square_sum": np.append(a["reward_square_sum"], 1.0)},
    "a count less": lambda a: {"transition_count": a["transition_count"][1:]},
    "a successor beyond the last": lambda a: {"successor": changed(a["successor"], 0, 5)},
    "a negative successor": lambda a: {"successor": changed(a["successor"], 0, -1)},
    "a pair without successors": lambda a: {"n_successors": changed(a["n_successors"], 0, 0)},
    "fewer than no successors": lambda a: {"n_successors": a["n_successors"] + np.eye(len(a["pair"]), dtype=int)[0] * 9
                                           - np.eye(len(a["pair"]), dtype=int)[1] * 9},
    "counts of nothing": lambda a: {"transition_count": changed(a["transition_count"], 0, 0.0)},
    "negative counts": lambda a: {"transition_count": changed(a["transition_count"], 0, -1.0)},
    "infinite counts": lambda a: {"transition_count": changed(a["transition_count"], 0, np.inf)},
    "counts that are none": lambda a: {"transition_count": changed(a["transition_count"], 0, np.nan)},
    "negative terminations": lambda a: {"n_terminated": changed(a["n_terminated"], 0, -1.0)},
    "more terminations than visits": lambda a: {"n_terminated": a["transition_count"] + 1},
    "rewards that are none": lambda a: {"reward_sum": changed(a["reward_sum"], 0, np.nan)},
    "infinite squares": lambda a: {"reward_square_sum": changed(a["reward_square_sum"], 0, np.inf)},
    "a terminal state beyond the last": lambda a: {"terminal": np.array([5])},
    "a negative terminal state": lambda a: {"terminal": np.array([-1])},
    "half a terminal state": lambda a: {"terminal": np.array([0.5])},
    "no range of rewards": lambda a: {"reward_range": np.array([np.nan, np.nan])},
    "an infinite range of rewards": lambda a: {"reward_range": np.array([-np.inf, np.inf])},
    "a range of rewards the wrong way round": lambda a: {"reward_range": a["reward_range"][::-1].copy()},
    "half a range of rewards": lambda a: {"reward_range": a["reward_range"][:1]},
    "no states": lambda a: {"n_states": np.array([0])},
    "fewer states": lambda a: {"n_states": np.array([3])},
    "more MDPs than one": lambda a: {"n_states": np.array([5, 5])},
    "fewer actions": lambda a: {"n_actions": np.array([2])},
    "a state without actions": lambda a: {"forbidden": np.arange(3), "forbidden_mdp": np.zeros(3, dtype=np.int64)},
    "a forbidden pair beyond the last": lambda a: {"forbidden": np.array([15]), "forbidden_mdp": np.array([0])},
}  # fmt: skip


@pytest.mark.parametrize("what", CRAFTED)
def test_arrays_that_do_not_fit_together_are_refused(what: str, tmp_path: Path) -> None:
    """However right the checksums of a file are: crafted arrays must not reach a planner."""
    arrays = statistics_to_arrays(some_statistics())
    arrays |= CRAFTED[what](arrays)
    arrays = {name: array for name, array in arrays.items() if array is not None}
    write_bundle(tmp_path / "crafted", arrays, {"kind": "statistics", "format": 2})
    with pytest.raises(MdpfnError, match="not whole"):
        Statistics.load(tmp_path / "crafted")


def test_they_are_refused_where_nobody_checks_shapes() -> None:
    """Tests check the shapes of all tables (`conftest`); users do not."""
    code = """
import sys
from tests.test_statistics_store import CRAFTED, some_statistics
from mdpfn import MdpfnError
from mdpfn.evidence.store import statistics_from_arrays, statistics_to_arrays
assert "jaxtyping" not in sys.modules
whole = statistics_to_arrays(some_statistics())
statistics_from_arrays(whole)
for what, change in CRAFTED.items():
    arrays = {name: array for name, array in (whole | change(whole)).items() if array is not None}
    try:
        statistics_from_arrays(arrays)
    except MdpfnError:
        continue
    print(what)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_larger_spaces_hold_the_same_observations() -> None:
    history = some_statistics()
    larger = history.renumbered(np.arange(5), np.arange(3), 7, 4)
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
        one_by_one.add(Transition(*transition))
    merged = Statistics(2, 2).merge(one_by_one)
    for history in (at_once, one_by_one, merged):
        np.testing.assert_array_equal(history.table().n_terminated, [1, 1])
    from_counts = Statistics.from_counts(*at_once.dense_counts(), terminal=[1])
    np.testing.assert_array_equal(from_counts.table().n_terminated, [2, 1])
