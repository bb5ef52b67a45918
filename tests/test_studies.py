"""The studies: small live runs, and the exact posterior and coverage against what is known about them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mdpfn.bench.figures import draw_figures, tables
from mdpfn.bench.figures.calibration import coverage, deviation
from mdpfn.bench.figures.data import read
from mdpfn.bench.protocols import calibration, compute, depth, posterior, sizes
from mdpfn.bench.protocols.convergence import ConvergenceProtocol
from mdpfn.bench.protocols.held_out import baseline_policy, sample_held_out, statistics_of
from mdpfn.bench.protocols.held_out_worlds import sample_held_out_worlds
from mdpfn.bench.protocols.methods import StoredWeights, stored_weights
from mdpfn.bench.protocols.parallel import generator, measure_cells
from mdpfn.bench.protocols.results import Cell, ResultsFile
from mdpfn.cli.measure import reproduce
from mdpfn.errors import MdpfnError
from mdpfn.evidence import PairTable
from mdpfn.model.exact import optimal_q
from mdpfn.network.config import NetworkConfig
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.numpy_network import NumpyNetwork
from mdpfn.network.tensors import to_numpy
from mdpfn.planners.output import PlannerOutput
from mdpfn.planners.problem_info import ProblemInfo
from mdpfn.prior.world import WorldConfig
from mdpfn.training.config import CONFIGS
from mdpfn.training.tasks import TaskConfig
from mdpfn.weights import save_model

SMALL_DEPTH = depth.DepthProtocol(
    depths=(1, 2), environments=("gridworld-3x3",), seeds=2, episodes=2, horizon=5, mdps_per_seed=3
)


LEVELS = (0.1, 0.5, 0.9)
WORLD = WorldConfig(n_states=(2, 12), n_actions=(2, 4))


def fill(study: Any, cells: list[Cell], path: Path) -> None:
    measure_cells(cells, ResultsFile(path, study.IDENTITY, study.MEASURED, "test"), workers=1)


def saved(path: Path, card: dict[str, object], **network: object) -> StoredWeights:
    """Weights of a very small network that nobody trained."""
    torch.manual_seed(0)
    config = NetworkConfig(**{"width": 8, "n_heads": 2, "depth": 2, "dropout": 0.0, **network})  # type: ignore[arg-type]
    save_model(path, to_numpy(PolicyNetwork(config)), card)
    return stored_weights(str(path))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> StoredWeights:
    """Inputs as in the paper, no quantiles."""
    return saved(tmp_path_factory.mktemp("weights") / "plain.safetensors", {})


@pytest.fixture(scope="module")
def with_quantiles(tmp_path_factory: pytest.TempPathFactory) -> StoredWeights:
    """It reads plans, states quantiles, and says that it was trained on small worlds."""
    config = replace(CONFIGS["mdpfn-2"], world=WORLD).to_dict()
    path = tmp_path_factory.mktemp("weights") / "with-quantiles.safetensors"
    return saved(path, {"training": {"config": config}}, inputs="planned", quantiles=LEVELS)


@pytest.fixture
def certain_of_nothing(with_quantiles: StoredWeights, monkeypatch: pytest.MonkeyPatch) -> StoredWeights:
    """States −10⁹, 0 and 10⁹ as quantiles of everything."""

    def outputs(network: NumpyNetwork, table: PairTable, info: ProblemInfo) -> list[PlannerOutput]:
        shapes = zip(table.n_states.tolist(), table.n_actions.tolist(), strict=True)
        return [PlannerOutput(np.zeros((s, a)), np.tile([-1e9, 0.0, 1e9], (s, a, 1))) for s, a in shapes]

    monkeypatch.setattr(calibration, "planner_outputs", outputs)
    return with_quantiles


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
def test_depth_rows(environment: str, plain: StoredWeights) -> None:
    measure = depth.measure_prior if environment == depth.PRIOR else depth.measure_online
    rows = measure(SMALL_DEPTH, environment, plain, 2)
    assert [row["seed"] for row in rows] == [0, 1]
    assert rows == measure(SMALL_DEPTH, environment, plain, 2)


def test_depth_matters(plain: StoredWeights) -> None:
    protocol = replace(SMALL_DEPTH, mdps_per_seed=30)
    one, two = (depth.measure_prior(protocol, depth.PRIOR, plain, k) for k in (1, 2))
    assert one != two


@pytest.mark.slow
def test_plenty_of_data_makes_the_posterior_policy_optimal(plain: StoredWeights) -> None:
    protocol = posterior.PosteriorProtocol(seeds=1, mdps_per_seed=12, posterior_samples=1500)
    little, plenty = (
        posterior.measure(protocol, posterior.TINY, posterior.BAYES, plain, visits)[0]["score"]
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
    policies = [baseline_policy("certainty-equivalence", z, i, mdp) for i, mdp in enumerate(problems.mdps)]
    assert problems.score(policies) > 0.97


def test_compute_study_reads_snapshots(tmp_path: Path) -> None:
    for step, place in ((64, "snapshots/step-64"), (128, "snapshots/step-128"), (150, "model")):
        training = {"mdps": 10 * step, "validation_loss": 1 / step, "validation_kl": 0.5 / step}
        saved(tmp_path / f"{place}.safetensors", {"training": training})
    protocol = compute.ComputeProtocol(
        depth=2,
        prior=SMALL_DEPTH,
        online=ConvergenceProtocol(
            environments=("gridworld-3x3",), seeds=2, first_seed=5, agent_max_episodes=9, horizon=5
        ),
    )
    fill(compute, compute.cells(protocol, tmp_path / "snapshots"), tmp_path / "compute.csv")
    rows = read(tmp_path / "compute.csv")
    assert {(row["environment"], row["mdps"]) for row in rows} == {
        (environment, mdps)
        for environment in ("validation", "prior", "gridworld-3x3")
        for mdps in ("640", "1280", "1500")
    }
    validated = {row["mdps"]: (float(row["loss"]), float(row["kl"])) for row in rows if row["loss"]}
    assert validated["640"] == pytest.approx((1 / 64, 0.5 / 64), rel=1e-3)
    assert len(validated) == 3
    assert {row["seed"] for row in rows if row["environment"] == "gridworld-3x3"} == {"5", "6"}
    assert all(1 <= int(row["episodes"]) <= 9 for row in rows if row["environment"] == "gridworld-3x3")
    with pytest.raises(MdpfnError, match="snapshots of a training run"):
        fill(compute, compute.cells(protocol, tmp_path / "none"), tmp_path / "compute.csv")


def test_study_figures(tmp_path: Path) -> None:
    results = Path(__file__).parent.parent / "results"
    drawn = {path.name for path in draw_figures(results, tmp_path)}
    for name in ("depth", "posterior", "calibration", "sizes", "compute"):
        assert (f"{name}.png" in drawn) == (results / f"{name}.csv").exists()


def test_settings_name_what_they_restrict() -> None:
    protocol = posterior.PosteriorProtocol()
    assert protocol.prior(posterior.TINY).n_states == (3, 3)
    assert protocol.prior(posterior.FULL).n_states == (2, 32)


class TestHeldOutWorlds:
    def test_scores_are_anchored_at_random_and_optimal(self) -> None:
        worlds = sample_held_out_worlds(12, 1, WORLD)
        assert worlds.score([optimal_q(m).argmax(axis=1) for m in worlds.mdps]) == pytest.approx(1, abs=1e-4)
        assert worlds.score([np.full(m.reward.shape, 1 / m.n_actions) for m in worlds.mdps]) == pytest.approx(0)
        assert all(m.n_states <= 12 for m in worlds.mdps)

    def test_data_is_of_the_worlds(self) -> None:
        """With plenty of it, means are true and terminations are where the terminal states are."""
        worlds = sample_held_out_worlds(12, 2, WORLD)
        z = worlds.statistics(generator("plenty"), np.full(12, 2000.0))
        assert any(mdp.terminal.any() for mdp in worlds.mdps)
        for i, mdp in enumerate(worlds.mdps):
            statistics = statistics_of(z, i)
            counts, sums = statistics.dense_counts()
            n_visits = counts.sum(axis=-1)
            assert not n_visits[mdp.terminal].any()
            going_on = ~mdp.terminal
            assert n_visits[going_on].min() > 1500
            largest = np.abs(mdp.outcome_reward).max() + 3 * mdp.reward_std.max()
            np.testing.assert_allclose(
                (sums / np.maximum(n_visits, 1))[going_on], mdp.reward[going_on], atol=0.15 * largest
            )
            assert statistics.terminal <= set(np.flatnonzero(mdp.terminal).tolist())

    def test_a_model_that_lived_is_measured_on_the_worlds_of_its_card(self, tmp_path: Path) -> None:
        config = replace(CONFIGS["mdpfn-2"], world=WORLD)
        network = to_numpy(PolicyNetwork(replace(config.network, width=8, n_heads=2)))
        save_model(tmp_path / "lived.safetensors", network, {"training": {"config": config.to_dict()}})
        weights = stored_weights(str(tmp_path / "lived.safetensors"))
        assert weights.name == "lived"
        assert weights.world == WORLD
        assert weights.load().network.config.quantiles == config.network.quantiles
        problems = depth.held_out_of(weights, 4, 0)
        np.testing.assert_array_equal(
            [m.n_states for m in problems.mdps], [m.n_states for m in sample_held_out_worlds(4, 0, WORLD).mdps]
        )
        assert [row["seed"] for row in depth.measure_prior(SMALL_DEPTH, depth.PRIOR, weights, 2)] == [0, 1]
        assert stored_weights("paper").world is None


class TestCalibration:
    SMALL = calibration.CalibrationProtocol(seeds=2, worlds_per_seed=24, tasks=TaskConfig(episodes=(1, 4)))

    def test_coverage_is_the_share_of_values_below(self, certain_of_nothing: StoredWeights) -> None:
        rows = calibration.measure(self.SMALL, certain_of_nothing, 0)
        found = {(row["group"], row["level"]): row for row in rows}
        assert found[calibration.ALL, 0.1]["observed"] == 0
        assert 0 < float(found[calibration.ALL, 0.5]["observed"] or 0) < 1
        assert found[calibration.ALL, 0.9]["observed"] == 1
        assert rows == calibration.measure(self.SMALL, certain_of_nothing, 0)

    def test_every_world_is_in_one_range_of_data(self, with_quantiles: StoredWeights) -> None:
        rows = calibration.measure(self.SMALL, with_quantiles, 1)
        worlds = {str(row["group"]): int(row["worlds"] or 0) for row in rows}
        names = calibration.amounts(self.SMALL.visits)
        assert names == [f"visits per pair {r}" for r in ("< 0.3", "0.3–1", "1–3", "3–10", "≥ 10")]
        assert sum(worlds.get(name, 0) for name in names) == worlds[calibration.ALL] == 24
        assert 0 < worlds[calibration.VISITED] < 24  # the youngest lives have seen nothing

    def test_it_needs_quantiles(self, tmp_path: Path, plain: StoredWeights) -> None:
        with pytest.raises(MdpfnError, match="no quantiles"):
            fill(calibration, calibration.cells(self.SMALL, plain), tmp_path / "calibration.csv")

    def test_run_and_figure(self, tmp_path: Path, with_quantiles: StoredWeights) -> None:
        fill(calibration, calibration.cells(self.SMALL, with_quantiles), tmp_path / "calibration.csv")
        rows = read(tmp_path / "calibration.csv")
        assert {(row["weights"], row["seed"]) for row in rows} == {("with-quantiles", s) for s in "01"}
        (path,) = draw_figures(tmp_path, tmp_path)
        assert path.name == "calibration.png"
        table = tables(tmp_path)["calibration"]
        level, observed, _ = coverage([row for row in rows if row["group"] == calibration.ALL])
        assert level.tolist() == list(LEVELS)
        off = f"{100 * np.abs(observed - level).max():.1f}"
        assert table.rows[0] == ["all pairs", "with-quantiles", *(f"{100 * share:.1f}" for share in observed), off]

    def test_worlds_have_the_same_weight_over_seeds(self) -> None:
        rows = [
            {"level": "0.5", "worlds": "3", "observed": "1"},
            {"level": "0.5", "worlds": "1", "observed": "0"},
            {"level": "0.1", "worlds": "4", "observed": "0.25"},
        ]
        level, observed, error = coverage(rows)
        assert level.tolist() == [0.1, 0.5]
        assert observed.tolist() == [0.25, 0.75]
        assert error[0] == 0 < error[1]
        assert deviation(level, observed) == "off by 25.0 points at 0.5"


class TestSizes:
    SMALL = sizes.SizesProtocol(n_states=(8, 80), visits=(1.0, 1000.0), seeds=2, worlds_per_seed=4)

    def test_worlds_have_the_size_that_was_asked_for(self) -> None:
        for name in sizes.SCALING:
            protocol = sizes.SizesProtocol(families=(name,), worlds_per_seed=2)
            n_states = [mdp.n_states for mdp in sizes.worlds_of_size(protocol, 120, 0).mdps]
            assert min(n_states) >= 60, name
            assert max(n_states) <= 120, name

    @pytest.mark.parametrize("method", [sizes.CERTAINTY, sizes.PESSIMISTIC])
    def test_plenty_of_data_makes_references_good(self, method: str, plain: StoredWeights) -> None:
        rows = sizes.measure(self.SMALL, 8, method, plain)
        little, plenty = (np.mean([float(r["score"] or 0) for r in rows if r["visits"] == v]) for v in (1.0, 1000.0))
        assert plenty > 0.9
        assert little < plenty

    def test_run_and_figure(self, tmp_path: Path, plain: StoredWeights) -> None:
        fill(sizes, sizes.cells(self.SMALL, plain), tmp_path / "sizes.csv")
        rows = read(tmp_path / "sizes.csv")
        assert {(row["states"], row["method"], row["weights"]) for row in rows} == {
            (n, method, weights)
            for n in ("8", "80")
            for method, weights in (("in-context", "plain"), (sizes.CERTAINTY, ""), (sizes.PESSIMISTIC, ""))
        }
        assert len(rows) == 2 * 3 * 4
        (path,) = draw_figures(tmp_path, tmp_path)
        assert path.name == "sizes.png"
        table = tables(tmp_path)["sizes"]
        assert table.headers == ["visits", "", "8", "80"]
        assert [cells[:2] for cells in table.rows[:1]] == [["1", "certainty equivalence"]]


def test_a_negative_first_seed_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(MdpfnError, match="first_seed is -1, but seeds are not negative"):
        reproduce("table", out=tmp_path / "results", first_seed=-1)
    assert not (tmp_path / "results").exists()
