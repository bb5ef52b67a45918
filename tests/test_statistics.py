"""The sufficient statistic: one meaning, however it was gathered."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from mdpfn.errors import MdpfnError
from mdpfn.evidence import Novelty, PairTable, Statistics, Transition
from tests.planned import weighed
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
    ours, theirs = a.table(), b.table()
    for name in ("pair", "n_visits", "reward_square_sum", "duration", "n_successors", "reward_scale"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-12, err_msg=name)
    assert ours.n_terminated.sum() == theirs.n_terminated.sum()
    assert a.terminal == b.terminal
    assert a.n_transitions == b.n_transitions
    assert a.reward_scale == pytest.approx(b.reward_scale)


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_one_by_one_at_once_and_merged_are_the_same(seed: int) -> None:
    columns = random_transitions(seed)
    one_by_one = Statistics(6, 3)
    for s, a, r, t, end in zip(*(c.tolist() for c in columns), strict=True):
        one_by_one.add(Transition(s, a, r, t, end))
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


class TestNovelty:
    def test_what_is_new_about_a_transition(self):
        history = Statistics(3, 2)
        seen = [
            history.add(Transition(*transition))
            for transition in ((0, 1, 0.0, 1), (0, 1, 0.5, 1), (0, 1, 0.5, 2), (0, 1, -0.5, 2), (0, 1, -2.0, 1))
        ]
        assert [novelty.n_visits for novelty in seen] == [1, 2, 3, 4, 5]
        assert [novelty.new_successor for novelty in seen] == [True, False, True, False, False]
        # The scale is 1 before the first reward that is not 0.
        assert [novelty.new_scale for novelty in seen] == [False, True, False, False, True]
        assert [novelty.replan_trigger for novelty in seen] == [True, True, True, True, True]

    def test_the_first_reward_of_size_one_changes_no_scale(self):
        history = Statistics(2, 1)
        assert [history.add(Transition(0, 0, r, 1)).new_scale for r in (1.0, -1.0, 1.5)] == [False, False, True]

    def test_visits_of_one_pair_are_not_those_of_another(self):
        history = Statistics(2, 2)
        history.add(Transition(0, 0, 0.0, 0))
        assert history.add(Transition(0, 1, 0.0, 0)) == Novelty(1, new_successor=True, new_scale=False)
        assert history.add(Transition(1, 0, 0.0, 0)) == Novelty(1, new_successor=True, new_scale=False)

    def test_plans_may_change_where_visits_doubled(self):
        again = [n for n in range(1, 70) if Novelty(float(n), new_successor=False, new_scale=False).replan_trigger]
        assert again == [1, 2, 4, 8, 16, 32, 64]

    @pytest.mark.parametrize("n_visits", [0.5, 2.5, 4.25, 3.0])
    def test_nothing_new(self, n_visits):
        assert not Novelty(n_visits, new_successor=False, new_scale=False).replan_trigger
        assert Novelty(n_visits, new_successor=True, new_scale=False).replan_trigger
        assert Novelty(n_visits, new_successor=False, new_scale=True).replan_trigger

    def test_what_was_known_before_is_not_new(self):
        history = Statistics.from_transitions([0] * 4, [0] * 4, [2.0] * 4, [1] * 4)
        assert history.add(Transition(0, 0, 1.0, 1)) == Novelty(5, new_successor=False, new_scale=False)
        assert history.add(Transition(0, 0, 1.0, 0)) == Novelty(6, new_successor=True, new_scale=False)


def test_what_ends_an_episode() -> None:
    ends = [Transition(0, 0, 0.0, 0, *flags).ends_episode for flags in ((), (True,), (False, True), (True, True))]
    assert ends == [False, True, True, True]


class TestSquares:
    def test_they_are_those_of_the_single_rewards(self):
        history = Statistics(2, 2)
        for action, reward in ((0, 3.0), (0, -1.0), (1, 2.0)):
            history.add(Transition(0, action, reward, 1))
        assert history.table().reward_square_sum.tolist() == [10, 4]
        assert history.renumbered(np.arange(2), np.arange(2), 5, 3).table().reward_square_sum.tolist() == [10, 4]

    def test_of_counts_rewards_do_not_vary(self):
        counts = np.zeros((2, 1, 2))
        counts[0, 0] = [1, 3]
        z = Statistics.from_counts(counts, [[6.0], [0.0]]).table()
        assert z.reward_square_sum.tolist() == [9]  # four times 1.5²

    @pytest.mark.parametrize("reward", [1e151, -1e151, float("inf"), float("nan")])
    def test_rewards_whose_squares_overflow_are_refused(self, reward):
        history = Statistics(2, 1)
        with pytest.raises(MdpfnError, match="reward"):
            history.add(Transition(0, 0, reward, 1))
        with pytest.raises(MdpfnError, match="reward"):
            history.add_transitions([0, 0], [0, 0], [0.0, reward], [1, 1])
        assert history.n_transitions == 0
        assert len(history.table().pair) == 0
        history.add(Transition(0, 0, 1e150, 1))
        assert np.isfinite(history.table().reward_square_sum).all()


def test_counts_may_be_fractional() -> None:
    """Whatever made the table: half of an observation here, a quarter there, and then a whole one more."""
    history = Statistics.from_transitions([0, 0, 0, 1], [0, 0, 0, 0], [1.0, 2.0, 3.0, 0.0], [1, 1, 0, 0], [0, 1, 0, 0])
    half = weighed(history.table(), 0.5)
    again = Statistics.from_table(half, history.terminal, history.reward_min, history.reward_max)
    for name in ("n_visits", "reward_sum", "reward_square_sum", "transition_count", "n_terminated", "mean_reward"):
        np.testing.assert_array_equal(getattr(again.table(), name), getattr(half, name), err_msg=name)
    np.testing.assert_array_equal(again.table().successor_probs, history.table().successor_probs)
    np.testing.assert_array_equal(again.table().going_on, history.table().going_on)
    novelty = again.add(Transition(0, 0, 1.0, 1))
    assert novelty == Novelty(2.5, new_successor=False, new_scale=False)
    assert not novelty.replan_trigger
    assert again.table().visits_table().tolist() == [[2.5], [0.5]]


def test_tables_know_states_actions_and_places_of_their_pairs() -> None:
    a = Statistics.from_transitions([0, 2], [1, 0], [1.0, 1.0], [1, 1], n_states=3, n_actions=2)
    b = Statistics.from_transitions([1, 1], [0, 2], [5.0, 5.0], [0, 1], n_states=2, n_actions=3)
    both = PairTable.concatenate([a.table(), b.table()])
    assert both.state.tolist() == [0, 2, 1, 1]
    assert both.action.tolist() == [1, 0, 0, 2]
    assert b.table().visits_table().tolist() == [[0, 0, 0], [1, 0, 1]]
    assert both.duration.tolist() == [1, 1, 1, 1]


def test_counts_round_trip() -> None:
    history = Statistics.from_transitions(*random_transitions(5), n_states=6, n_actions=3)
    again = Statistics.from_counts(*history.dense_counts(), terminal=sorted(history.terminal))
    assert again.terminal == history.terminal
    for left, right in zip(again.dense_counts(), history.dense_counts(), strict=True):
        np.testing.assert_array_equal(left, right)


def test_reward_scale_is_the_largest_seen_and_one_before_any() -> None:
    history = Statistics(2, 1)
    assert history.reward_scale == 1
    history.add(Transition(0, 0, 0.0, 1))
    assert history.reward_scale == 1
    history.add(Transition(0, 0, -3.0, 1))
    history.add(Transition(0, 0, 2.0, 1))
    assert history.reward_scale == 3


def test_arrays_follow_later_updates() -> None:
    history = Statistics(3, 2)
    history.add(Transition(0, 0, 1.0, 1))
    assert len(history.table().pair) == 1
    history.add(Transition(2, 1, 1.0, 0))
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
