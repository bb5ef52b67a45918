"""The four plans the network reads equal their equations, however they are computed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mdpfn.evidence import PairTable, Statistics
from mdpfn.evidence.absorbing import with_absorbing
from mdpfn.model import empirical, policy_iteration
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.planners.classical import (
    ALL_PLANNERS,
    CERTAINTY_EQUIVALENT,
    N_PLANNERS,
    OPTIMISTIC,
    PESSIMISTIC,
    PURE_EXPLORATION,
    Estimates,
    PlannerConfig,
    estimate,
)
from mdpfn.planners.problem_info import ProblemInfo
from tests.planned import PENALTY, UNSEEN_VISITS, Problem, histories, problems, slow_estimates

TOLERANCE = 1e-7


def joined(parts: list[Problem]) -> tuple[EmpiricalModel, ProblemInfo]:
    model = EmpiricalModel.of(PairTable.concatenate([z for z, _ in parts]))
    return model, ProblemInfo.concatenate([info for _, info in parts])


def tables(found: Estimates) -> list[np.ndarray]:
    """(S, A, 4) Q of every MDP."""
    flat = np.stack([found.q_table(planner) for planner in range(N_PLANNERS)], axis=1)
    n_states, n_actions = found.model.n_states, found.model.table.n_actions
    parts = np.split(flat, np.cumsum(n_states * n_actions)[:-1])
    return [q.reshape(s, a, N_PLANNERS) for q, s, a in zip(parts, n_states, n_actions, strict=True)]


def swept_exactly(patch: pytest.MonkeyPatch, entries: int) -> None:
    """Have models with more entries than these solved by sweeps, to the last digit."""
    patch.setattr(policy_iteration, "DENSE_ENTRIES", entries)
    patch.setattr(empirical, "SWEEPS", 10**5)
    patch.setitem(EmpiricalModel.sweep.__kwdefaults__, "tolerance", 1e-12)


def check_against_the_oracle(parts: list[Problem]) -> None:
    model, info = joined(parts)
    found, layout = estimate(model, info), model.layout
    for mdp, ((z, mine), q) in enumerate(zip(parts, tables(found), strict=True)):
        slow_q, slow_value, slow_unvisited = slow_estimates(with_absorbing(z), mine)
        np.testing.assert_allclose(q, slow_q[: z.n_states[0]], rtol=TOLERANCE, atol=TOLERANCE)
        active = np.flatnonzero(layout.active_mdp == mdp)
        np.testing.assert_allclose(
            found.value[active], slow_value[layout.active[active]], rtol=TOLERANCE, atol=TOLERANCE
        )
        for unvisited in (found.value[layout.n_active + mdp], found.unvisited_q[mdp]):
            np.testing.assert_allclose(unvisited, slow_unvisited, rtol=TOLERANCE, atol=TOLERANCE)


@settings(max_examples=100, deadline=None)
@given(st.lists(problems(), min_size=1, max_size=3))
def test_equal_their_equations(parts: list[Problem]) -> None:
    check_against_the_oracle(parts)


@settings(max_examples=5, deadline=None)
@given(st.lists(problems(discounts=(0.995,)), min_size=1, max_size=2))
def test_with_a_discount_near_one(parts: list[Problem]) -> None:
    check_against_the_oracle(parts)


def test_more_mdps_than_are_solved_together() -> None:
    """Chunks of MDPs of similar sizes, in any order."""
    rng = np.random.default_rng(0)
    parts = []
    for _ in range(2 * policy_iteration.CHUNK + 3):
        n_states, n = int(rng.integers(2, 7)), int(rng.integers(0, 30))
        s, t = rng.integers(n_states, size=(2, n))
        history = Statistics.from_transitions(
            s, rng.integers(3, size=n), rng.normal(size=n), t, n_states=n_states, n_actions=3
        )
        parts.append((history.table(), ProblemInfo.of(0.9)))
    check_against_the_oracle(parts)


@pytest.mark.parametrize("entries", [policy_iteration.DENSE_ENTRIES, 0])
def test_values_travel_along_the_longest_path(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A corridor with a reward at one end and something never tried at the other, solved exactly and by sweeps."""
    n, discount = 130, 0.98
    state = np.arange(n)
    right = Statistics.from_transitions(state, 0 * state, state == n - 1, np.minimum(state + 1, n - 1), n_actions=2)
    left = Statistics.from_transitions(state[1:], 0 * state[1:] + 1, 0.0 * state[1:], state[:-1], n_states=n)
    model = EmpiricalModel.of(right.merge(left).table())
    monkeypatch.setattr(policy_iteration, "DENSE_ENTRIES", entries)
    monkeypatch.setitem(EmpiricalModel.sweep.__kwdefaults__, "tolerance", 1e-9)
    value = estimate(model, ProblemInfo.of(discount)).value[:n]
    np.testing.assert_allclose(value[:, CERTAINTY_EQUIVALENT], discount ** state[::-1] / (1 - discount), rtol=0.05)
    assert (np.diff(value[:, CERTAINTY_EQUIVALENT]) > 0).all()
    assert (np.diff(value[:, PURE_EXPLORATION]) < 0).all()


@settings(max_examples=40, deadline=None)
@given(st.lists(problems(discounts=(0.5, 0.9)), min_size=1, max_size=4), st.sampled_from([0, 40, 300]))
def test_sweeps_and_exact_solutions_agree(parts: list[Problem], entries: int) -> None:
    """With models too large for a table among the others, or none but such."""
    model, info = joined(parts)
    assume(model.layout.n_active > 0)
    exact = estimate(model, info)
    with pytest.MonkeyPatch.context() as patch:
        swept_exactly(patch, entries)
        swept = estimate(model, info)
    np.testing.assert_allclose(swept.q, exact.q, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(swept.value, exact.value, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(swept.unvisited_q, exact.unvisited_q, rtol=0, atol=TOLERANCE)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(problems(discounts=(0.5, 0.9)), min_size=1, max_size=3),
    st.permutations(ALL_PLANNERS),
    st.integers(1, N_PLANNERS),
    st.sampled_from([0, 500_000]),
)
def test_planners_do_not_need_each_other(parts: list[Problem], order: list[int], n: int, entries: int) -> None:
    """However few are asked, in whatever order, in exact solutions and in sweeps."""
    model, info = joined(parts)
    assume(model.layout.n_active > 0)
    some = tuple(order[:n])
    with pytest.MonkeyPatch.context() as patch:
        swept_exactly(patch, entries)
        found, of_all = estimate(model, info, some), estimate(model, info)
    for planner in some:
        np.testing.assert_allclose(found.q_table(planner), of_all.q_table(planner), rtol=0, atol=TOLERANCE)


@settings(max_examples=25, deadline=None)
@given(st.lists(problems(), min_size=2, max_size=4))
def test_independent_of_the_rest_of_the_batch(parts: list[Problem]) -> None:
    together = tables(estimate(*joined(parts)))
    for part, mine in zip(parts, together, strict=True):
        np.testing.assert_allclose(mine, tables(estimate(*joined([part])))[0], atol=TOLERANCE)


def test_company_does_not_decide_how_an_mdp_is_solved() -> None:
    """Exact alone, exact in any batch: a table for all of them would be too large, so they get several."""
    n = 30
    walk = Statistics.from_transitions(range(n), [0] * n, [0.0] * (n - 1) + [1.0], [*range(1, n), 0], n_actions=2)
    part = walk.table(), ProblemInfo.of(0.999)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy_iteration, "DENSE_ENTRIES", 31**2 * 3)
        for n_others in (0, 1, 20):
            small = Statistics.from_transitions([0], [0], [1.0], [0], n_actions=5).table(), ProblemInfo.of(0.5)
            found = tables(estimate(*joined([part, *[part, small] * n_others])))
            exact = tables(estimate(*joined([part])))[0]
            assert exact[n - 1, 0, CERTAINTY_EQUIVALENT] == pytest.approx(1 / (1 - 0.999**n))
            np.testing.assert_allclose(found[0], exact, rtol=TOLERANCE)


@settings(max_examples=40, deadline=None)
@given(problems(discounts=(0.5, 0.9)))
def test_the_certain_exploit_what_they_tried(problem: Problem) -> None:
    """Untried actions of known states are out of the question, those of unknown states all alike."""
    z, _ = problem
    n_states, n_actions = int(z.n_states[0]), int(z.n_actions[0])
    found = estimate(*joined([problem]))
    table = found.certainty_equivalent_table().reshape(n_states, n_actions)
    known = EmpiricalModel.of(z).table
    tried = np.zeros((int(known.n_states[0]), n_actions), dtype=bool)
    tried.reshape(-1)[known.pair] = True
    tried = tried[:n_states]
    q = found.q_table(CERTAINTY_EQUIVALENT).reshape(n_states, n_actions)
    np.testing.assert_array_equal(np.isinf(table), ~tried & tried.any(axis=1, keepdims=True))
    np.testing.assert_array_equal(table[np.isfinite(table)], q[np.isfinite(table)])


@pytest.mark.parametrize("entries", [policy_iteration.DENSE_ENTRIES, 0])
def test_a_pair_that_takes_long_has_a_discount_of_its_own(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop of 3 steps that pays 1 is worth 1 / (1 − γ³), beside one of a single step that pays 0.4."""
    swept_exactly(monkeypatch, entries)
    history = Statistics.from_transitions([0, 1], [0, 0], [1.0, 0.4], [0, 1])
    discount = 0.9
    for duration, expected in (([3.0, 1.0], [1 / (1 - 0.9**3), 4.0]), ([1.0, 0.5], [10.0, 0.4 / (1 - 0.9**0.5)])):
        model = EmpiricalModel.of(replace(history.table(), duration=np.array(duration)))
        found = estimate(model, ProblemInfo.of(discount), (CERTAINTY_EQUIVALENT,))
        np.testing.assert_allclose(found.q[:, 0], expected, rtol=1e-9)


def test_other_constants_make_other_planners() -> None:
    model = EmpiricalModel.of(Statistics.from_transitions([0], [0], [1.0], [0], n_actions=2).table())
    config = PlannerConfig(unseen_visits=1.0, penalty=0.0)
    found = estimate(model, ProblemInfo.of(0.5), config=config)
    np.testing.assert_allclose(found.q, [[2.0, 2.0, 2.0, (1 + 2) / 2]])
    np.testing.assert_allclose(found.unvisited_q, [[2.0, 2.0, -2.0, 2.0]])


@settings(max_examples=40, deadline=None)
@given(histories(), st.sampled_from([0.0, 0.9, 0.99]))
def test_what_is_believed_of_the_unseen_is_in_order(history: Statistics, discount: float) -> None:
    """pessimistic ≤ certain ≤ optimistic ≤ heaven wherever rewards can be gains and losses."""
    found = estimate(EmpiricalModel.of(history.table()), ProblemInfo.of(discount))
    for table in (found.q, found.value, found.unvisited_q):
        assert (table[:, PESSIMISTIC] <= table[:, CERTAINTY_EQUIVALENT] + TOLERANCE).all()
        assert (table[:, CERTAINTY_EQUIVALENT] <= table[:, OPTIMISTIC] + TOLERANCE).all()
        heaven = 1 / (1 - discount)
        assert (np.delete(np.abs(table), PESSIMISTIC, axis=1) <= heaven + TOLERANCE).all()
        assert (table[:, PESSIMISTIC] >= -(1 + PENALTY) * heaven - TOLERANCE).all()
        assert (table[:, PURE_EXPLORATION] >= 0).all()


def test_a_small_case_by_hand() -> None:
    """One state, one of two actions taken once for 2, the scale of rewards: worth 1 / (1 − γ) for the certain."""
    model = EmpiricalModel.of(Statistics.from_transitions([0], [0], [2.0], [0], n_actions=2).table())
    found = estimate(model, ProblemInfo.of(0.5))
    w = UNSEEN_VISITS
    # The pessimist keeps to what it knows, which it fears to pay less; what it does not know pays −1 and less still.
    pessimistic, feared = 2 * (1 - PENALTY), -2 * (1 + PENALTY)
    # The curious take the other action at once; the known one is worth (0 + 2/2 + w · 2) / (1 + w).
    curious = (1 + 2 * w) / (1 + w)
    np.testing.assert_allclose(found.q, [[2.0, 2.0, pessimistic, curious]])
    np.testing.assert_allclose(found.unvisited_q, [[2.0, 2.0, feared, 2.0]])
    np.testing.assert_allclose(found.value, [[2.0, 2.0, pessimistic, 2.0], [2.0, 2.0, feared, 2.0]])


def test_rewards_that_are_losses_only_end_soon_at_best() -> None:
    z = Statistics.from_transitions([0], [0], [-3.0], [0], n_actions=2).table()
    model = EmpiricalModel.of(replace(z, reward_scale=np.array([4.0])))
    unvisited = estimate(model, ProblemInfo.of(0.5, (-4.0, -1.0))).unvisited_q[0]
    np.testing.assert_allclose(unvisited[[OPTIMISTIC, PESSIMISTIC]], [-0.25, -2.0 - 2 * PENALTY])
    unvisited = estimate(model, ProblemInfo.of(0.5, (1.0, 4.0))).unvisited_q[0]
    np.testing.assert_allclose(unvisited[[OPTIMISTIC, PESSIMISTIC]], [2.0, 0.25 - 2 * PENALTY])


def test_curiosity_falls_with_the_distance_of_the_unseen() -> None:
    """A corridor walked once, in which only the way on was tried: every state has something new next to it …"""
    n = 6
    walked = Statistics.from_transitions(range(n - 1), [0] * (n - 1), [0.0] * (n - 1), range(1, n), n_actions=1)
    value = estimate(EmpiricalModel.of(walked.table()), ProblemInfo.of(0.9)).value[:, PURE_EXPLORATION]
    assert (np.diff(value[: n - 1]) > 0.1).all()  # … with one action, only its end has
    assert value[n - 1] == pytest.approx(10)
