"""Dynamic programming against an independent solver (quantecon) and against definitions."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from mdpfn.baselines import PSRL, UCBVI
from mdpfn.evidence import Statistics
from mdpfn.model import policy_iteration
from mdpfn.model.empirical import Assumptions, EmpiricalModel, Values
from mdpfn.model.exact import Scorer, optimal_q, optimal_q_batch, policy_value
from mdpfn.model.mdp import MDPBatch, TabularMDP
from mdpfn.model.solvers import boltzmann_policy, value_iteration
from mdpfn.planners.problem_info import ProblemInfo
from tests.planned import Problem, dense_model, histories, problems
from tests.strategies import mdps, seeds


def independent_solution(mdp: TabularMDP) -> tuple[np.ndarray, np.ndarray]:
    """V* and an optimal policy by quantecon's policy iteration."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba warns about its own compilation
        from quantecon.markov import DiscreteDP

        problem = DiscreteDP(mdp.reward, mdp.dense_transition, max(mdp.discount, 1e-12))
        solution = problem.solve(method="policy_iteration")
    return np.asarray(solution.v), np.asarray(solution.sigma)


@settings(max_examples=100, deadline=None)
@given(mdps())
def test_optimal_values_agree_with_quantecon(mdp: TabularMDP) -> None:
    value, policy = independent_solution(mdp)
    np.testing.assert_allclose(optimal_q(mdp, tolerance=1e-10).max(axis=1), value, atol=1e-8)
    np.testing.assert_allclose(policy_value(mdp, policy), value, atol=1e-8)


@settings(max_examples=50, deadline=None)
@given(mdps())
def test_policy_value_satisfies_its_equation(mdp: TabularMDP) -> None:
    rng = np.random.default_rng(0)
    policy = rng.dirichlet(np.ones(mdp.n_actions), mdp.n_states)
    value = policy_value(mdp, policy)
    backup = (policy * (mdp.reward + mdp.discount * mdp.dense_transition @ value)).sum(axis=1)
    np.testing.assert_allclose(value, backup, atol=1e-9)


def test_sparse_and_dense_policy_evaluation_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    mdp = TabularMDP.from_dense(rng.dirichlet(np.ones(40), (40, 3)), rng.normal(size=(40, 3)), discount=0.97)
    policy = rng.integers(3, size=40)
    dense = policy_value(mdp, policy)
    monkeypatch.setattr("mdpfn.model.exact.DENSE_SOLVE_STATES", 0)
    np.testing.assert_allclose(policy_value(mdp, policy), dense, atol=1e-10)


def test_a_batch_solves_every_mdp_as_if_alone() -> None:
    rng = np.random.default_rng(2)
    parts = [
        TabularMDP.from_dense(rng.dirichlet(np.ones(s), (s, a)), rng.normal(size=(s, a)), discount=g)
        for s, a, g in [(3, 2, 0.9), (7, 4, 0.95), (1, 3, 0.5)]
    ]
    together = optimal_q_batch(MDPBatch.of(parts), tolerance=1e-10, max_sweeps=None)
    alone = np.concatenate([optimal_q(m, tolerance=1e-10).reshape(-1) for m in parts])
    np.testing.assert_allclose(together, alone, atol=1e-8)


def test_value_iteration_keeps_its_tolerance_and_its_ceiling() -> None:
    """A self-loop paying 1 is worth 1 / (1 − γ): the error is known exactly."""
    mdp = TabularMDP.from_dense([[[1.0]]], [[1.0]], discount=0.99)
    for tolerance in (1e-2, 1e-6):
        error = 100 - optimal_q(mdp, tolerance=tolerance)[0, 0]
        assert 0 <= error <= tolerance
    ten_sweeps = value_iteration(mdp.transition, mdp.reward.reshape(-1), 0.99, mdp.first_pair, max_sweeps=10)
    assert ten_sweeps[0] == pytest.approx((1 - 0.99**10) / 0.01)


def test_boltzmann_policy_is_a_softmax_per_state() -> None:
    q = np.array([1.0, 2.0, 5.0, 5.0, -1000.0])
    policy = boltzmann_policy(q, np.array([0, 2]), 0.5)
    assert policy[1] / policy[0] == pytest.approx(np.exp(2))
    np.testing.assert_allclose(policy[2:], [0.5, 0.5, 0], atol=1e-12)


def test_normalized_score_of_random_and_optimal_policies() -> None:
    rng = np.random.default_rng(4)
    mdp = TabularMDP.from_dense(rng.dirichlet(np.ones(6), (6, 3)), rng.normal(size=(6, 3)))
    score = Scorer(mdp)
    assert score(np.full((6, 3), 1 / 3)) == pytest.approx(0, abs=1e-9)
    assert score(optimal_q(mdp).argmax(axis=1)) == pytest.approx(1)


@pytest.mark.parametrize("unit", [1e-12, 1e-6, 1e9])
def test_scores_do_not_depend_on_the_unit_of_rewards(unit: float) -> None:
    rng = np.random.default_rng(5)
    transition, reward, policy = rng.dirichlet(np.ones(6), (6, 3)), rng.normal(size=(6, 3)), rng.integers(3, size=6)
    expected = Scorer(TabularMDP.from_dense(transition, reward))(policy)
    assert Scorer(TabularMDP.from_dense(transition, unit * reward))(policy) == pytest.approx(expected)


def test_a_model_stays_as_it_was_checked() -> None:
    transition = csr_array(np.full((2, 2), 0.5))
    mdp = TabularMDP.from_sparse(transition, 1, reward=np.ones((2, 1)))
    transition.data[:] = 7
    np.testing.assert_array_equal(mdp.transition.data, 0.5)


def test_terminal_states_absorb_and_pay_nothing() -> None:
    transition = np.full((3, 2, 3), 1 / 3)
    mdp = TabularMDP.from_dense(transition, np.ones((3, 2)), terminal=[2])
    np.testing.assert_array_equal(mdp.dense_transition[2], [[0, 0, 1], [0, 0, 1]])
    assert (optimal_q(mdp)[2] == 0).all()
    assert mdp.reward[0, 0] == pytest.approx(1)


def test_rewards_per_transition_average_to_rewards_per_pair() -> None:
    transition = [[[0.25, 0.75]], [[0.0, 1.0]]]
    mdp = TabularMDP.from_dense(transition, [[[4.0, 8.0]], [[9.0, 1.0]]])
    np.testing.assert_allclose(mdp.reward, [[7.0], [1.0]])
    np.testing.assert_allclose(mdp.outcome_reward, [4.0, 8.0, 1.0])


# The empirical model, against dense solutions straight from what was observed


def paper_assumptions(model: EmpiricalModel, discount: float) -> Assumptions:
    """Data at its word; pairs never visited pay 0 and lead anywhere with equal probability (B)."""
    gamma = np.array([discount])
    return Assumptions(
        reward=(model.table.mean_reward * model.goes_on)[:, None],
        discount=model.discount(gamma)[:, None],
        unvisited_reward=np.zeros((1, 1)),
        unvisited_discount=model.uniform_row(gamma)[:, None],
        may_try=np.array([True]),
    )


def table_of(model: EmpiricalModel, values: Values) -> np.ndarray:
    """(S, A) Q of the only planner in the only MDP."""
    q = model.q_table(values.q[:, 0], values.v[model.layout.n_active :, 0])
    return q.reshape(int(model.n_states[0]), -1)


@settings(max_examples=100, deadline=None)
@given(problems(discounts=(0.0, 0.5, 0.9)))
def test_both_solvers_of_the_empirical_model_agree_with_a_dense_one(problem: Problem) -> None:
    """With terminations, fractional counts and pairs that take more than one step."""
    z, info = problem
    discount = float(info.discount[0])
    model = EmpiricalModel.of(z)
    assumed = paper_assumptions(model, discount)
    expected = dense_model(z).optimal_q(discount)
    swept = model.sweep(assumed, max_sweeps=10**5, tolerance=1e-12)
    for values in (swept, policy_iteration.solve(model, assumed)):
        np.testing.assert_allclose(table_of(model, values), expected, rtol=0, atol=1e-8)


@settings(max_examples=100, deadline=None)
@given(problems(discounts=(0.0, 0.5, 0.9, 0.99)), seeds)
def test_the_value_of_a_policy_agrees_with_a_dense_linear_system(problem: Problem, seed: int) -> None:
    z, info = problem
    rng, discount = np.random.default_rng(seed), float(info.discount[0])
    n_states, n_actions = int(z.n_states[0]), int(z.n_actions[0])
    policy = rng.dirichlet(np.ones(n_actions), n_states)
    dense, model = dense_model(z), EmpiricalModel.of(z)
    for some in (policy, np.eye(n_actions)[policy.argmax(axis=1)]):
        found = model.policy_value(some, model.table.mean_reward, discount)
        np.testing.assert_allclose(found, dense.policy_value(some, discount), rtol=1e-8, atol=1e-8)
    paid = np.zeros((n_states, n_actions))  # other rewards than those observed
    reward = rng.normal(size=len(model.table.pair))
    mine = model.table.state < n_states
    paid.reshape(-1)[model.table.pair[mine]] = reward[mine]
    expected = replace(dense, reward=paid).policy_value(policy, discount)
    np.testing.assert_allclose(model.policy_value(policy, reward, discount), expected, rtol=1e-8, atol=1e-8)


def test_durations_matter() -> None:
    """A detour of one pair over 2.5 steps is worth γ^2.5 of where it leads, for both solvers and for a policy."""
    history = Statistics.from_transitions([0, 1], [0, 0], [0.0, 1.0], [1, 1])
    for duration in (1.0, 2.5):
        model = EmpiricalModel.of(replace(history.table(), duration=np.array([duration, 1.0])))
        expected = [0.9**duration / (1 - 0.9), 1 / (1 - 0.9)]
        assumed = paper_assumptions(model, 0.9)
        for values in (model.sweep(assumed, tolerance=1e-12, max_sweeps=10**4), policy_iteration.solve(model, assumed)):
            np.testing.assert_allclose(values.q[:, 0], expected)
        value = model.policy_value(np.ones((2, 1)), model.table.mean_reward, 0.9)
        np.testing.assert_allclose(value, expected)


@settings(max_examples=40, deadline=None)
@given(histories(), st.sampled_from([0.0, 0.5, 0.9]))
def test_baselines_solve_the_same_model(history: Statistics, discount: float) -> None:
    """UCB-VI and PSRL exploit the dense model's Q; the optimist's has bonuses, and Vmax where nothing was tried."""
    dense, rng = dense_model(history.table()), np.random.default_rng(0)
    info = ProblemInfo.of(discount)
    expected, scale = dense.optimal_q(discount), history.reward_scale
    for kind in (UCBVI, PSRL):
        found = kind(history, info, rng).empirical_q()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * scale)
    learner = UCBVI(history, info, rng, bonus=0.3)
    learner.episode = 3
    bonus = 0.3 * np.sqrt(np.log(expected.size * 3 + 1) / np.where(dense.tried, dense.visits, 1))
    v_max = scale / (1 - discount)
    optimistic = dense.optimal_q(discount, bonus=bonus, limit=v_max, untried=v_max)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mdpfn.baselines.ucbvi.ACTING_SWEEPS", 10**4)
        np.testing.assert_allclose(learner.optimistic_q(), optimistic, rtol=0, atol=1e-4 * scale)


def test_sweeps_go_on_from_where_they_were() -> None:
    n = 40
    walk = Statistics.from_transitions(range(n), [0] * n, [0.0] * (n - 1) + [1.0], [*range(1, n), n - 1])
    model = EmpiricalModel.of(walk.table())
    assumed = paper_assumptions(model, 0.95)
    few = model.sweep(assumed, max_sweeps=10)
    assert few.q[0, 0] == 0  # nothing has come this far
    more = model.sweep(assumed, max_sweeps=2000, tolerance=1e-12, initial=few.v)
    np.testing.assert_allclose(more.q[:, 0], 0.95 ** np.arange(n - 1, -1, -1) / 0.05, rtol=1e-8)
    again = model.sweep(assumed, max_sweeps=2, initial=more.v)
    np.testing.assert_allclose(again.q, more.q)
