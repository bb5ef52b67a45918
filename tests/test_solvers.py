"""Dynamic programming against an independent solver (quantecon) and against definitions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse import csr_array

from mdpfn.model.exact import Scorer, optimal_q, optimal_q_batch, policy_value
from mdpfn.model.mdp import MDPBatch, TabularMDP
from mdpfn.model.solvers import boltzmann_policy, value_iteration
from tests.strategies import mdps


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
