"""The studies: depth, data, compute. Small live runs and the exact posterior against what is known about it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mdpfn.errors import MdpfnError
from mdpfn.exact import optimal_q
from mdpfn.figures import draw_figures
from mdpfn.figures.data import read
from mdpfn.network.network import NetworkConfig, PolicyNetwork
from mdpfn.outlook import Outlook
from mdpfn.protocols import compute, depth, posterior
from mdpfn.protocols.convergence import ConvergenceProtocol
from mdpfn.protocols.held_out import sample_held_out
from mdpfn.protocols.methods import StoredPlanner
from mdpfn.protocols.parallel import generator
from mdpfn.statistics import StatisticsBatch
from mdpfn.told import Told
from mdpfn.weights import save_model

SMALL_DEPTH = depth.DepthProtocol(
    depths=(1, 2), environments=("gridworld-3x3",), seeds=2, episodes=2, horizon=5, mdps_per_seed=3
)


def first_action(statistics: StatisticsBatch, told: Told) -> list[Outlook]:
    """A planner that always takes the first action."""
    return [
        Outlook(-np.tile(np.arange(a), (s, 1)).astype(float))
        for s, a in zip(statistics.n_states, statistics.n_actions, strict=True)
    ]


def load_first_action(depth: int | None) -> object:
    return first_action


PLANNER = StoredPlanner("first-action", "0" * 12, "softmax", load_first_action)  # type: ignore[arg-type]


def test_held_out_scores_are_anchored_at_random_and_optimal() -> None:
    problems = sample_held_out(20, seed=1)
    assert problems.score([optimal_q(m).argmax(axis=1) for m in problems.mdps]) == pytest.approx(1)
    assert problems.score([np.full(m.reward.shape, 1 / m.n_actions) for m in problems.mdps]) == pytest.approx(0)
    again = sample_held_out(20, seed=1)
    np.testing.assert_array_equal(problems.optimal, again.optimal)


def test_statistics_are_scaled_by_the_largest_reward_seen() -> None:
    problems = sample_held_out(30, seed=2)
    z = problems.statistics(generator("test"), np.full(30, 1.0))
    for mdp in range(30):
        seen = np.abs(z.normalized_reward[z.pair_mdp == mdp])
        assert seen.size == 0 or seen.max() in (0, pytest.approx(1))


@pytest.mark.parametrize("environment", [depth.PRIOR, "gridworld-3x3"])
def test_depth_rows(environment: str) -> None:
    measure = depth.measure_prior if environment == depth.PRIOR else depth.measure_online
    rows = measure(SMALL_DEPTH, environment, PLANNER, 2)
    assert [row["seed"] for row in rows] == [0, 1]
    assert rows == measure(SMALL_DEPTH, environment, PLANNER, 2)


@pytest.mark.slow
def test_plenty_of_data_makes_the_posterior_policy_optimal() -> None:
    protocol = posterior.PosteriorProtocol(seeds=1, mdps_per_seed=12, posterior_samples=1500)
    little, plenty = (
        posterior.measure(protocol, posterior.TINY, posterior.BAYES, PLANNER, visits)[0]["score"]
        for visits in (0.3, 20.0)
    )
    assert plenty > 0.97
    assert little < plenty


def test_without_data_the_posterior_is_the_prior() -> None:
    """Importance weights are equal, so the best policy maximizes the plain average over the samples."""
    model = posterior.TinyPosterior.sample(200)
    problems = sample_held_out(1, 0, posterior.PosteriorProtocol().prior(posterior.TINY))
    z = problems.statistics(generator("none"), np.zeros(1))
    best = model.best_policy(z, 0)

    def average_value(policy: np.ndarray) -> float:
        states = np.arange(3)
        system = np.eye(3) - model.discount * model.transition[:, states, policy]
        return float(np.linalg.solve(system, model.reward[:, states, policy][:, :, None]).mean())

    policies = [np.array([a, b, c]) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    assert average_value(best) == pytest.approx(max(map(average_value, policies)))


def test_certainty_equivalence_sees_the_same_data() -> None:
    problems = sample_held_out(8, 3)
    z = problems.statistics(generator("much"), np.full(8, 300.0))
    policies = [posterior.certainty_equivalent(z, i, m.discount) for i, m in enumerate(problems.mdps)]
    assert problems.score(policies) > 0.97


def test_compute_study_reads_snapshots(tmp_path: Path) -> None:
    for step in (64, 128):
        network = PolicyNetwork(NetworkConfig(width=8, n_heads=2, depth=2, dropout=0.0))
        save_model(tmp_path / "snapshots" / f"step-{step}", network, {"training": {"mdps": 10 * step}})
    protocol = compute.ComputeProtocol(
        depth=2,
        prior=SMALL_DEPTH,
        online=ConvergenceProtocol(environments=("gridworld-3x3",), seeds=2, max_episodes=9, horizon=5),
    )
    compute.run(protocol, tmp_path / "snapshots", tmp_path / "compute.csv", command="test", workers=1)
    rows = read(tmp_path / "compute.csv")
    assert {(row["environment"], row["mdps"]) for row in rows} == {
        (environment, mdps) for environment in ("prior", "gridworld-3x3") for mdps in ("640", "1280")
    }
    with pytest.raises(MdpfnError, match="snapshots of a training run"):
        compute.run(protocol, tmp_path / "none", tmp_path / "compute.csv", command="test", workers=1)


def test_study_figures(tmp_path: Path) -> None:
    results = Path(__file__).parent.parent / "results"
    drawn = {path.name for path in draw_figures(results, tmp_path)}
    for name in ("depth", "posterior", "compute"):
        assert (f"{name}.png" in drawn) == (results / f"{name}.csv").exists()


def test_settings_name_what_they_restrict() -> None:
    protocol = posterior.PosteriorProtocol()
    assert protocol.prior(posterior.TINY).n_states == (3, 3)
    assert protocol.prior(posterior.FULL).n_states == (2, 32)
