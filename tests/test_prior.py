"""The prior's marginals against the paper's distributions (Table 2), with fixed seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from mdpfn.model.mdp import MDPBatch, TabularMDP
from mdpfn.prior.geometry import GEOMETRIES, sample_geometry, sample_neighbours
from mdpfn.prior.paper import PriorConfig, sample_mdp
from mdpfn.prior.picture import draw_contact_sheet
from mdpfn.prior.rewards import sample_keep_probability, sample_positive_fraction, sample_rewards
from mdpfn.prior.sizes import log_uniform, sample_n_actions, sample_n_states, sample_outdegree
from mdpfn.prior.transitions import sample_transition
from mdpfn.training.visits import explore, sample_budget

N = 4000
SIGNIFICANCE = 1e-3


def draws(sampler, *args) -> np.ndarray:
    rng = np.random.default_rng(7)
    return np.array([sampler(rng, *args) for _ in range(N)])


def assert_frequencies(values: np.ndarray, expected: dict[object, float]) -> None:
    observed = np.array([(values == key).sum() for key in expected])
    assert observed.sum() == len(values)
    assert stats.chisquare(observed, np.array(list(expected.values())) * len(values)).pvalue > SIGNIFICANCE


def test_states_are_log_uniform() -> None:
    edges = np.log(np.clip(np.arange(2, 34) - 0.5, 2, 32))  # rounding: S = s for x in [s − ½, s + ½)
    assert_frequencies(draws(sample_n_states, 2, 32), dict(zip(range(2, 33), np.diff(edges) / np.log(16), strict=True)))


def test_actions_are_uniform() -> None:
    assert_frequencies(draws(sample_n_actions, 2, 4), dict.fromkeys((2, 3, 4), 1 / 3))


def test_outdegree_follows_a_power_law() -> None:
    total = sum(1 / o for o in range(1, 7))
    assert_frequencies(draws(sample_outdegree, 6), {o: 1 / o / total for o in range(1, 7)})


def test_geometry_is_uniform() -> None:
    assert_frequencies(draws(sample_geometry), dict.fromkeys(GEOMETRIES, 0.25))


def test_concentration_and_budget_are_log_uniform() -> None:
    for low, high in [(0.05, 5.0), (0.1, 10.0)]:
        values = np.log(draws(log_uniform, low, high))
        assert stats.kstest(values, stats.uniform(np.log(low), np.log(high / low)).cdf).pvalue > SIGNIFICANCE


def test_reward_parameters() -> None:
    assert stats.kstest(draws(sample_keep_probability), stats.beta(2, 4).cdf).pvalue > SIGNIFICANCE
    assert stats.kstest(draws(sample_positive_fraction), stats.uniform().cdf).pvalue > SIGNIFICANCE


def test_rewards_are_sparse_signed_beta_magnitudes() -> None:
    rewards = sample_rewards(np.random.default_rng(1), 200, 50, keep=0.3, positive=0.8).reshape(-1)
    kept = rewards[rewards != 0]
    assert stats.binomtest(len(kept), len(rewards), 0.3).pvalue > SIGNIFICANCE
    assert stats.binomtest(int((kept > 0).sum()), len(kept), 0.8).pvalue > SIGNIFICANCE
    assert stats.kstest(np.abs(kept), stats.beta(2, 5).cdf).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("concentration", [0.3, 1.0, 4.0])
def test_rows_are_dirichlet(concentration: float) -> None:
    """The first weight of a symmetric Dirichlet of O entries is Beta(α, (O − 1) α)."""
    pool = np.tile(np.arange(8), (300, 1))
    rows = sample_transition(np.random.default_rng(2), pool, 5, 3, concentration)
    first = rows.data.reshape(-1, 3)[:, 0]
    assert stats.kstest(first, stats.beta(concentration, 2 * concentration).cdf).pvalue > SIGNIFICANCE
    np.testing.assert_allclose(rows.data.reshape(-1, 3).sum(axis=1), 1)


def test_supports_are_drawn_uniformly_from_the_pool() -> None:
    pool = np.tile(np.arange(8), (500, 1))
    rows = sample_transition(np.random.default_rng(3), pool, 4, 2, 1.0)
    support = rows.indices.reshape(-1, 2)
    assert (support[:, 0] != support[:, 1]).all()
    assert stats.chisquare(np.bincount(support.reshape(-1), minlength=8)).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("geometry", ["chain", "grid", "mesh"])
def test_geometric_pools_are_local(geometry: str) -> None:
    """Neighbours of neighbours are near: pools overlap far more than random ones, and hold the state itself."""
    rng = np.random.default_rng(4)
    pool = sample_neighbours(rng, geometry, 30, 6)
    assert (pool[:, 0] == np.arange(30)).all()
    random_pool = sample_neighbours(rng, "random", 30, 6)

    def overlap(p: np.ndarray) -> float:
        sets = [set(row.tolist()) for row in p]
        return float(np.mean([len(sets[s] & sets[t]) for s, row in enumerate(p) for t in row]))

    assert overlap(pool) > overlap(random_pool) + 1


def test_sampled_mdps_are_valid_and_vary() -> None:
    rng = np.random.default_rng(5)
    sample = [sample_mdp(rng) for _ in range(300)]
    for mdp in sample:
        TabularMDP.from_sparse(mdp.transition, mdp.n_actions, reward=mdp.reward, discount=mdp.discount)  # checks it
        degrees = np.diff(mdp.transition.indptr)
        assert (degrees == degrees[0]).all()
        assert degrees[0] <= 6
    assert len({(m.n_states, m.n_actions) for m in sample}) > 40


def test_the_same_generator_gives_the_same_mdp() -> None:
    a, b = (sample_mdp(np.random.default_rng(9)) for _ in range(2))
    assert (a.transition != b.transition).nnz == 0
    np.testing.assert_array_equal(a.reward, b.reward)


def test_exploration_visits_are_poisson_and_successors_follow_the_model() -> None:
    rng = np.random.default_rng(6)
    mdp = TabularMDP.from_dense(np.tile([0.2, 0.5, 0.3, 0.0], (4, 3, 1)), np.ones((4, 3)) * 0.5)
    batch = MDPBatch.of([mdp] * 300)
    z = explore(rng, batch, np.full(300, 1.5))
    visits = np.zeros(300 * 12)
    visits[: len(z.n_visits)] = z.n_visits
    expected = stats.poisson(1.5).pmf(range(6))
    observed = [(visits == n).sum() for n in range(6)]
    assert (
        stats.chisquare(
            [*observed, len(visits) - sum(observed)], [*expected * 3600, (1 - expected.sum()) * 3600]
        ).pvalue
        > SIGNIFICANCE
    )
    totals = np.bincount(z.successor, weights=z.transition_count, minlength=4)
    assert totals[3] == 0
    assert stats.chisquare(totals[:3], np.array([0.2, 0.5, 0.3]) * totals.sum()).pvalue > SIGNIFICANCE
    np.testing.assert_allclose(z.mean_reward, 0.5)
    np.testing.assert_allclose(z.normalized_reward, 1.0)


def test_budgets_span_their_range() -> None:
    budget = sample_budget(np.random.default_rng(0), 2000, 0.1, 10.0)
    assert budget.min() < 0.11
    assert budget.max() > 9
    assert np.median(budget) == pytest.approx(1.0, rel=0.15)


def test_contact_sheet(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "sheet.png"
    draw_contact_sheet([sample_mdp(rng, PriorConfig(n_states=(1, 12))) for _ in range(5)], path)
    assert path.read_bytes().startswith(b"\x89PNG")
