"""The measurements: small live runs, what an interruption leaves, and the recorded results against the paper."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from mdpfn.baselines import BASELINES
from mdpfn.bench.environments import ENVIRONMENTS, TabularEnv
from mdpfn.bench.figures.tables import tables_in
from mdpfn.bench.protocols import convergence, leaderboard, learning_curves, offline, offline_leaderboard, parallel
from mdpfn.bench.protocols.convergence import ConvergenceProtocol, window_start
from mdpfn.bench.protocols.leaderboard import LeaderboardProtocol
from mdpfn.bench.protocols.learning_curves import LearningCurveProtocol
from mdpfn.bench.protocols.methods import (
    IN_CONTEXT,
    AgentContestant,
    BaselineContestant,
    Method,
    StoredWeights,
    stored_weights,
)
from mdpfn.bench.protocols.offline import OfflineProtocol, RecordedPolicy
from mdpfn.bench.protocols.parallel import generator, measure_cells
from mdpfn.bench.protocols.results import Cell, ResultsFile, Row
from mdpfn.cli import measure as commands
from mdpfn.errors import MdpfnError
from mdpfn.evidence import Transition
from mdpfn.model.exact import optimal_q
from mdpfn.online.env_adapters import adapter_of
from mdpfn.online.loop import run_episodes
from mdpfn.planners.policies import one_hot
from mdpfn.spaces.encoding import SpaceEncoding
from mdpfn.weights import save_model
from tests.planned import planned_model

RESULTS = Path(__file__).parent.parent / "results"
PAPER = {
    "ucbvi": {"gridworld-3x3": 16, "gridworld-5x5": 53, "frozen-lake": 46},
    "q-learning": {"gridworld-3x3": 469, "gridworld-5x5": 1205, "frozen-lake": 1014},
}


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> StoredWeights:
    """An untrained network that reads plans: it says what certainty equivalence says, and explores directedly."""
    path = tmp_path_factory.mktemp("weights") / "untrained.safetensors"
    save_model(path, planned_model().network, {})
    return stored_weights(str(path))


@pytest.fixture
def contestants(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every contestant that a method starts, with what it was told."""
    started: list[Any] = []
    start = Method.start

    def recording(self: Method, mdp: Any, seed: int, **told: Any) -> Any:
        contestant = start(self, mdp, seed, **told)
        started.append((contestant, told))
        return contestant

    monkeypatch.setattr(Method, "start", recording)
    return started


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


class TestResultsFile:
    def cell(self, environment: str = "lake", settings: object = 1, weights_hash: str = "") -> Cell:
        return Cell((environment, "ucbvi"), settings, weights_hash, list)

    def file(self, path: Path) -> ResultsFile:
        return ResultsFile(path / "r.csv", ("environment", "method"), ("seed", "score"), "mdpfn test")

    def test_rows_carry_what_they_come_from(self, tmp_path: Path) -> None:
        self.file(tmp_path).replace(
            self.cell(weights_hash="ab"), [{"seed": 0, "score": 0.5}, {"seed": 1, "score": None}]
        )
        first, second = rows_of(tmp_path / "r.csv")
        assert first["score"] == "0.5"
        assert second["score"] == ""
        assert first["weights_hash"] == "ab"
        assert first["command"] == "mdpfn test"
        assert first["version"]
        assert first["settings"] == self.cell().stamp["settings"]

    def test_a_later_run_finds_them(self, tmp_path: Path) -> None:
        self.file(tmp_path).replace(self.cell(), [{"seed": 0, "score": 0.5}])
        assert self.file(tmp_path).has(self.cell())
        assert not self.file(tmp_path).has(self.cell("grid"))

    def test_other_settings_or_weights_make_only_their_own_rows_stale(self, tmp_path: Path) -> None:
        results = self.file(tmp_path)
        results.replace(self.cell("grid"), [{"seed": 0, "score": 1.0}])
        results.replace(self.cell("lake", weights_hash="old"), [{"seed": 0, "score": 0.5}])
        assert not results.has(self.cell("grid", settings=2))
        assert not results.has(self.cell("lake", weights_hash="new"))
        results.replace(self.cell("lake", weights_hash="new"), [{"seed": 0, "score": 0.7}])
        assert [row["score"] for row in rows_of(tmp_path / "r.csv")] == ["1.0", "0.7"]
        assert results.has(self.cell("grid"))

    def test_the_order_of_work_does_not_show(self, tmp_path: Path) -> None:
        texts = []
        for order in (["grid", "lake"], ["lake", "grid"]):
            for environment in order:
                self.file(tmp_path).replace(self.cell(environment), [{"seed": 0, "score": 0.5}])
            texts.append((tmp_path / "r.csv").read_text())
            (tmp_path / "r.csv").unlink()
        assert texts[0] == texts[1]


class TestWorkers:
    def run(self, path: Path, weights: StoredWeights, workers: int) -> str:
        protocol = LeaderboardProtocol(episodes=4, seeds=2)
        methods = [Method("psrl"), Method("q-learning"), Method(IN_CONTEXT, weights=weights)]
        environments = [ENVIRONMENTS["river-swim-6"], ENVIRONMENTS["bandit-10"]]
        file = ResultsFile(path, leaderboard.IDENTITY, leaderboard.MEASURED, "c")
        measure_cells(leaderboard.cells(protocol, methods, environments), file, workers=workers)
        return path.read_text()

    @pytest.mark.slow
    def test_their_number_changes_nothing_and_finished_cells_are_not_measured_again(
        self, tmp_path: Path, weights: StoredWeights
    ) -> None:
        one, two = tmp_path / "one.csv", tmp_path / "two.csv"
        assert self.run(one, weights, 1) == self.run(two, weights, 2)
        before = two.stat().st_mtime_ns
        self.run(two, weights, 2)
        assert two.stat().st_mtime_ns == before

    @pytest.mark.slow
    def test_a_killed_run_keeps_what_it_finished_and_continues(self, tmp_path: Path) -> None:
        path, root = tmp_path / "killed.csv", Path(__file__).parent.parent
        code = f"from tests.test_protocols import *; slow_cells(Path({str(path)!r}), pause=1.0)"
        environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
        running = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 300
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        running.send_signal(signal.SIGKILL)
        running.wait()
        finished = rows_of(path)
        assert 0 < len(finished) < N_SLOW_CELLS
        slow_cells(path, pause=0)
        whole = rows_of(path)
        assert [row for row in whole if row in finished] == finished
        assert [(row["environment"], row["score"]) for row in whole] == [
            (str(i), str(slow_row(str(i), 0)[0]["score"])) for i in range(N_SLOW_CELLS)
        ]

    @pytest.mark.slow
    def test_an_error_in_a_worker_arrives_and_finished_cells_stay(self, tmp_path: Path) -> None:
        results = ResultsFile(tmp_path / "r.csv", ("environment",), ("score",), "c")
        cells = [Cell(("a",), 1, "", partial(slow_row, "a", 0)), Cell(("b",), 1, "", failing_measurement)]
        with pytest.raises(MdpfnError, match="discount is 2"):
            measure_cells(cells, results, workers=1)
        assert [row["environment"] for row in rows_of(tmp_path / "r.csv")] == ["a"]


N_SLOW_CELLS = 12


def slow_row(name: str, pause: float) -> list[Row]:
    time.sleep(pause)
    return [{"score": round(generator("slow", name).random(), 6)}]


def slow_cells(path: Path, pause: float) -> None:
    results = ResultsFile(path, ("environment",), ("score",), "c")
    cells = [Cell((str(i),), 1, "", partial(slow_row, str(i), pause)) for i in range(N_SLOW_CELLS)]
    measure_cells(cells, results, workers=1)


def failing_measurement() -> list[Row]:
    raise MdpfnError("discount", 2, "it must lie in [0, 1)", "use a value such as 0.95")


class TestEpisodes:
    def episode(self, horizon: int, *, terminates: bool) -> list[Transition]:
        env = TabularEnv(ENVIRONMENTS["frozen-lake"].build(), horizon=horizon, terminates=terminates)
        encoding = SpaceEncoding.of(16, 4, largest=(16, 4))
        rng = np.random.default_rng(0)
        actor = RecordedPolicy(lambda state: int(rng.integers(4)))
        worlds = adapter_of(env, encoding, encoding.find)
        run_episodes(actor, worlds, seed=0, goes_on=lambda: not actor.history.returns)
        assert actor.history.returns == [pytest.approx(sum(transition.reward for transition in actor.transitions))]
        assert actor.history.lengths == [len(actor.transitions)]
        return actor.transitions

    def test_run_through_terminal_states_as_in_the_paper(self) -> None:
        seen = self.episode(50, terminates=False)
        assert len(seen) == 50
        assert seen[-1].state == seen[-1].next_state
        assert not any(transition.terminated for transition in seen)
        assert [transition.truncated for transition in seen] == [False] * 49 + [True]

    def test_end_in_them_where_asked(self) -> None:
        seen = self.episode(500, terminates=True)
        assert len(seen) < 500
        assert [transition.terminated for transition in seen] == [False] * (len(seen) - 1) + [True]
        assert not seen[-1].truncated

    def test_connect(self) -> None:
        seen = self.episode(20, terminates=False)
        assert seen[0].state == 0
        assert all(a.next_state == b.state for a, b in pairwise(seen))


class TestMethods:
    def test_names_weights_and_options_tell_them_apart(self, weights: StoredWeights) -> None:
        assert Method("ucbvi").identity == ("ucbvi", "", "")
        assert Method("ucbvi", {"bonus": 1.0}).identity == ("ucbvi", "", "bonus = 1.0")
        paper = Method(IN_CONTEXT, {"depth": 24, "exploration": "softmax"}, weights)
        assert paper.identity == ("in-context", "untrained", "depth = 24, exploration = softmax")
        assert paper.weights_hash == weights.weights_hash != Method("ucbvi").weights_hash == ""

    def test_options_reach_what_they_are_for(self, weights: StoredWeights) -> None:
        mdp = ENVIRONMENTS["gridworld-3x3"].build()
        ours = Method(IN_CONTEXT, {"exploration": "softmax", "acting_temperature": 0.7}, weights).start(mdp, 0)
        assert isinstance(ours, AgentContestant)
        assert (ours.agent.exploration, ours.agent.acting_temperature) == ("softmax", 0.7)
        assert ours.agent.problem.options.discount == mdp.discount
        theirs = Method("ucbvi", {"bonus": 3.0}).start(mdp, 0, reward_range=(-1, 9))
        assert isinstance(theirs, BaselineContestant)
        learner: Any = theirs.problem.learner
        assert (learner.bonus, learner.reward_scale, learner.discount) == (3.0, 9.0, mdp.discount)

    def test_baselines_learn_from_data_as_from_episodes(self) -> None:
        mdp = ENVIRONMENTS["gridworld-3x3"].build()
        stream = offline.uniform_stream(mdp, 0, 400, 50)
        contestant = Method("certainty-equivalence").start(mdp, 0)
        before = contestant.policy()
        contestant.fit(stream)
        assert not np.array_equal(contestant.policy(), before)
        contestant.fit(stream[:10])  # afresh
        assert isinstance(contestant, BaselineContestant)
        assert contestant.problem.learner.evidence.n_transitions == 10


class TestConvergence:
    @pytest.mark.parametrize(
        ("scores", "expected"),
        [
            ([1.0] * 7, None),
            ([1.0] * 8, 1),
            ([0.95] * 8, 1),
            ([0.9] + [1.0] * 8, 2),
            ([1.0] * 7 + [0.9], None),
            ([1.0] * 7 + [0.94] + [1.0] * 7, None),
            ([1.0] * 7 + [0.94] + [1.0] * 8, 9),
        ],
    )
    def test_is_the_first_episode_of_a_window_without_a_dip(self, scores: list[float], expected: int | None) -> None:
        assert window_start(scores, 0.95, 8) == expected

    def test_settings_are_the_papers(self) -> None:
        protocol = ConvergenceProtocol()
        assert (protocol.seeds, protocol.max_episodes, protocol.horizon) == (12, 1500, 50)
        assert (protocol.threshold, protocol.window, protocol.depth) == (0.95, 8, 24)
        assert (protocol.acting_temperature, protocol.ucbvi_bonus, protocol.q_learning_epsilon) == (1.0, 1.0, 0.1)

    @pytest.mark.parametrize(("environment", "expected"), [("gridworld-3x3", 16), ("gridworld-5x5", 53)])
    def test_ucbvi_takes_as_long_as_in_the_paper(self, weights: StoredWeights, environment: str, expected: int) -> None:
        protocol = ConvergenceProtocol(seeds=1)
        (row,) = convergence.measure(protocol, ENVIRONMENTS[environment], protocol.methods(weights)[1])
        assert row == {"seed": 0, "episodes": expected}

    def test_is_never_claimed_too_early(self, weights: StoredWeights) -> None:
        protocol, grid = ConvergenceProtocol(seeds=2, max_episodes=21), ENVIRONMENTS["gridworld-3x3"]
        q_learning, ucbvi, ours, *_ = (convergence.measure(protocol, grid, m) for m in protocol.methods(weights))
        assert [row["episodes"] for row in q_learning] == [None, None]
        assert [row["episodes"] for row in ucbvi] == [None, None]  # the window from 16 on ends after 22
        assert all(isinstance(row["episodes"], int) and row["episodes"] < 15 for row in ours)

    def test_it_stops_when_it_has_converged(self, weights: StoredWeights, contestants: list[Any]) -> None:
        protocol = ConvergenceProtocol(seeds=1)
        (row,) = convergence.measure(protocol, ENVIRONMENTS["gridworld-3x3"], protocol.methods(weights)[2])
        ((contestant, _),) = contestants
        assert len(contestant.agent.problem.history.returns) == int(row["episodes"] or 0) + protocol.window - 2

    def test_the_agent_is_measured_as_shipped_and_as_in_the_paper(self, weights: StoredWeights) -> None:
        shipped, softmax, paper = ConvergenceProtocol().methods(weights)[2:]
        assert shipped == Method(IN_CONTEXT, weights=weights)
        assert softmax.options == {"exploration": "softmax", "acting_temperature": 1.0}
        assert paper.options == {"depth": 24, "exploration": "softmax", "acting_temperature": 1.0}

    def test_a_seed_does_not_depend_on_how_many_there_are(self, weights: StoredWeights) -> None:
        protocol, lake = ConvergenceProtocol(seeds=3, agent_max_episodes=20), ENVIRONMENTS["frozen-lake"]
        for method in protocol.methods(weights)[2:]:
            many = convergence.measure(protocol, lake, method)
            assert convergence.measure(replace(protocol, seeds=1), lake, method) == many[:1]

    def test_only_the_baselines_are_told_the_true_range(self, weights: StoredWeights, contestants: list[Any]) -> None:
        protocol = ConvergenceProtocol(seeds=1, max_episodes=1, agent_max_episodes=1)
        for method in protocol.methods(weights):
            convergence.measure(protocol, ENVIRONMENTS["gridworld-3x3"], method)
        true = {"reward_range": (-1.0, 9.0)}
        assert [told for _, told in contestants] == [true, true, {}, {}, {}]
        assert [c.problem.options.reward_range for c, _ in contestants[:2]] == [(-1.0, 9.0)] * 2
        assert [c.agent.problem.options.reward_range for c, _ in contestants[2:]] == [None] * 3


class TestLearningCurves:
    SMALL = LearningCurveProtocol(seeds=2, episodes=8, greedy_rollouts=4, reference_episodes=50)

    def test_settings_are_the_papers(self) -> None:
        protocol = LearningCurveProtocol()
        assert (protocol.episodes, protocol.horizon, protocol.acting_temperature) == (512, 50, 0.3)
        assert sorted(protocol.depths) == [4, 8, 16, 20, 24, 38]
        assert (protocol.greedy_rollouts, protocol.reference_episodes) == (256, 2000)

    def test_probes_are_the_powers_of_two(self, weights: StoredWeights) -> None:
        rows = learning_curves.measure(self.SMALL, ENVIRONMENTS["frozen-lake"], Method(IN_CONTEXT, weights=weights))
        assert [(row["seed"], row["episodes"]) for row in rows] == [(s, n) for s in (0, 1) for n in (1, 2, 4, 8)]

    def test_an_optimal_policy_scores_one(self, weights: StoredWeights) -> None:
        protocol = replace(self.SMALL, episodes=32, reference_episodes=500)
        method = Method(IN_CONTEXT, weights=weights)
        rows = learning_curves.measure(protocol, ENVIRONMENTS["gridworld-3x3"], method)
        last = rows[5]
        assert last["return"] == 10 - 4  # four steps, the last into the goal
        assert last["score"] == pytest.approx(1.0)

    def test_references_bracket_the_scale(self) -> None:
        mdp = ENVIRONMENTS["frozen-lake"].build()
        policies = np.full((16, 4), 0.25), one_hot(optimal_q(mdp).argmax(axis=1), 4)
        random, optimal = (learning_curves.mean_return(mdp, policy, 50, 400, seed=0) for policy in policies)
        assert -1 < random < -0.5 < 0.4 < optimal < 1

    def test_the_rollouts_are_not_observed(self, contestants: list[Any]) -> None:
        protocol = replace(self.SMALL, seeds=1, episodes=4)
        learning_curves.measure(protocol, ENVIRONMENTS["frozen-lake"], Method("uniform"))
        ((contestant, _),) = contestants
        assert contestant.problem.history.lengths == [50] * 3
        assert contestant.problem.learner.evidence.n_transitions == 3 * 50


class TestOffline:
    def test_settings_are_the_papers(self) -> None:
        protocol = OfflineProtocol()
        assert protocol.sizes == tuple(2**k for k in range(3, 12))
        assert (protocol.seeds, protocol.horizon, protocol.depth) == (8, 50, 24)
        assert protocol.penalties == (0.0, 0.1, 0.3, 0.5, 1.0, 2.0)

    def test_the_stream_restarts_in_terminal_states_and_after_the_horizon(self) -> None:
        mdp = ENVIRONMENTS["gridworld-5x5"].build()
        stream = offline.uniform_stream(mdp, 0, 600, horizon=50)
        assert len(stream) == 600
        lengths, length = [], 0
        for transition, following in pairwise(stream):
            length += 1
            if transition.ends_episode:
                assert following.state == 0
                assert transition.terminated == (transition.next_state == 24)
                lengths.append(length)
                length = 0
            else:
                assert following.state == transition.next_state
        assert max(lengths) == 50
        assert all(not t.terminated or t.next_state == 24 for t in stream)

    def test_every_method_sees_the_same_data(self) -> None:
        """With no penalty, and all pairs visited, VI-LCB and certainty equivalence plan on the same model."""
        protocol = OfflineProtocol(seeds=2, sizes=(8, 2048))
        lcb = offline.measure(protocol, ENVIRONMENTS["gridworld-3x3"], Method("vi-lcb", {"penalty": 0.0}))
        same = offline.measure(protocol, ENVIRONMENTS["gridworld-3x3"], Method("certainty-equivalence"))
        assert [row["transitions"] for row in lcb] == [8, 2048, 8, 2048]
        assert lcb[1] == same[1] == {"seed": 0, "transitions": 2048, "score": pytest.approx(1.0)}

    def test_the_penalty_of_the_leaderboard_is_in_units_of_the_largest_reward(self, contestants: list[Any]) -> None:
        protocol = offline_leaderboard.OfflineLeaderboardProtocol(seeds=1, sizes=(64,))
        methods = offline_leaderboard.variants(Method("vi-lcb"))
        assert [method.options["penalty"] for method in methods] == list(offline_leaderboard.PENALTIES)
        offline_leaderboard.measure(protocol, ENVIRONMENTS["gridworld-3x3"], methods[-1])
        assert contestants[0][0].method.options == {"penalty": 9.0}
        assert offline_leaderboard.variants(Method("certainty-equivalence")) == [Method("certainty-equivalence")]


class TestReproduce:
    @pytest.mark.slow
    def test_every_protocol_fills_its_file(self, tmp_path: Path, weights: StoredWeights) -> None:
        grid: dict[str, Any] = {"environments": ("gridworld-3x3",), "seeds": 2}
        table_protocol = ConvergenceProtocol(max_episodes=12, agent_max_episodes=12, **grid)
        data_protocol = OfflineProtocol(sizes=(8, 16), penalties=(0.1,), **grid)
        depth_protocol = LearningCurveProtocol(depths=(4, 8), episodes=2, reference_episodes=10, **grid)
        for name, cells, measured in (
            ("convergence", convergence.cells(table_protocol, weights), convergence.MEASURED),
            ("offline", offline.cells(data_protocol, weights), offline.MEASURED),
            ("learning_curves", learning_curves.cells(depth_protocol, weights), learning_curves.MEASURED),
        ):
            file = ResultsFile(tmp_path / f"{name}.csv", leaderboard.IDENTITY, measured, "mdpfn reproduce")
            measure_cells(cells, file, workers=2)
        table = rows_of(tmp_path / "convergence.csv")
        names = ("agent", "weights", "options")
        assert [tuple(row[name] for name in (*names, "seed")) for row in table] == [
            (*method, seed)
            for method in (
                ("in-context", "untrained", ""),
                ("in-context", "untrained", "depth = 24, exploration = softmax, acting_temperature = 1.0"),
                ("in-context", "untrained", "exploration = softmax, acting_temperature = 1.0"),
                ("q-learning", "", "epsilon = 0.1"),
                ("ucbvi", "", "bonus = 1.0"),
            )
            for seed in "01"
        ]
        assert [row["episodes"] for row in table[6:]] == [""] * 4
        data = [tuple(row[name] for name in names) for row in rows_of(tmp_path / "offline.csv")]
        assert data == [
            method
            for method in (
                ("in-context", "untrained", ""),
                ("in-context", "untrained", "depth = 24"),
                ("vi-lcb", "", "penalty = 0.1"),
            )
            for _ in range(4)
        ]
        curves = [(r["options"], r["seed"], r["episodes"]) for r in rows_of(tmp_path / "learning_curves.csv")]
        acts = "exploration = softmax, acting_temperature = 0.3"
        assert curves == [(f"depth = {depth}, {acts}", seed, n) for depth in "48" for seed in "01" for n in "12"]
        assert {row["weights_hash"] for row in table[:6]} == {weights.weights_hash}
        assert {row["weights_hash"] for row in table[6:]} == {""}

    @pytest.mark.parametrize(
        ("what", "files"),
        [
            ("table", ["convergence.csv"]),
            ("offline", ["offline.csv"]),
            ("depth", ["learning_curves.csv"]),
            ("all", ["convergence.csv", "offline.csv", "learning_curves.csv"]),
        ],
    )
    def test_runs_what_it_is_asked_for(
        self,
        what: commands.Experiment,
        files: list[str],
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        weights: StoredWeights,
    ) -> None:
        ran: list[str] = []

        def record(cells: list[Cell], results: ResultsFile, *, workers: int) -> None:
            assert weights.weights_hash in {cell.weights_hash for cell in cells}
            assert (results.command, workers) == (f"mdpfn reproduce {what} --weights {weights.path}", 3)
            ran.append(results.path.name)

        monkeypatch.setattr(parallel, "measure_cells", record)
        commands.reproduce(what, weights=weights.path, out=tmp_path, workers=3)
        assert ran == files


class TestLeaderboard:
    def test_scores_after_powers_of_two(self) -> None:
        rows = leaderboard.measure(
            LeaderboardProtocol(episodes=8, seeds=2), ENVIRONMENTS["gridworld-3x3"], Method("ucbvi")
        )
        assert [(row["seed"], row["episodes"]) for row in rows] == [(s, n) for s in (0, 1) for n in (1, 2, 4, 8)]

    def test_uniform_scores_zero_and_a_learner_one(self, weights: StoredWeights) -> None:
        protocol, grid = LeaderboardProtocol(episodes=32, seeds=2), ENVIRONMENTS["gridworld-3x3"]
        uniform = leaderboard.measure(protocol, grid, Method("uniform"))
        learner = leaderboard.measure(protocol, grid, Method(IN_CONTEXT, weights=weights))
        assert all(row["score"] == pytest.approx(0.0) for row in uniform)
        assert learner[-1]["score"] == pytest.approx(1.0)

    def test_what_is_earned_is_normalized_by_uniform_and_optimal_actions(
        self, weights: StoredWeights, contestants: list[Any]
    ) -> None:
        """Uniform actions earn 0 on average; whoever knows the best ones earns 1 from then on."""
        protocol = LeaderboardProtocol(episodes=256, seeds=1)
        environment = ENVIRONMENTS["gridworld-3x3"]
        *_, uniform = leaderboard.measure(protocol, environment, Method("uniform"))
        assert uniform["earned"] == pytest.approx(0.0, abs=0.1)
        rows = leaderboard.measure(protocol, environment, Method(IN_CONTEXT, weights=weights))
        earned = [float(row["earned"] or 0) for row in rows]
        late = (256 * earned[-1] - 128 * earned[-2]) / 128
        assert 0.9 < late <= 1 + 1e-9
        assert earned[0] < earned[-1]
        history = contestants[1][0].agent.problem.history
        discount = environment.build().discount
        best = discount**3 * 9 - sum(discount**i for i in range(3))  # four steps, the last into the goal
        assert max(history.discounted_returns) == pytest.approx(best)

    def test_agents_learn_of_termination_under_other_names(self, contestants: list[Any]) -> None:
        leaderboard.measure(LeaderboardProtocol(episodes=20, seeds=2), ENVIRONMENTS["frozen-lake"], Method("uniform"))
        for seed, (contestant, _) in enumerate(contestants):
            name_of = generator("leaderboard", "frozen-lake", seed).permutation(16)
            terminal = contestant.problem.learner.evidence.terminal
            assert terminal
            assert terminal <= {int(name_of[state]) for state in (5, 7, 11, 12, 15)}

    @pytest.mark.parametrize(
        ("wrong", "field"),
        [
            ({"agents": ("ucbvi", "alphazero")}, "agents"),
            ({"environments": ("chess",)}, "environments"),
            ({"episodes": 0}, "episodes"),
            ({"seeds": 0}, "seeds"),
            ({"workers": 0}, "workers"),
            ({"budgets": (16, 0)}, "budgets"),
            ({"units": (-1.0,)}, "units"),
            ({"units": (10.0,), "offline": True}, "budgets"),
        ],
    )
    def test_mistakes_are_named(self, wrong: dict[str, object], field: str) -> None:
        with pytest.raises(MdpfnError) as caught:
            commands.leaderboard(**wrong)  # type: ignore[arg-type]
        assert caught.value.field == field

    def test_the_command_writes_the_file(self, tmp_path: Path) -> None:
        commands.leaderboard(agents=("ucbvi",), environments=("chain-5",), episodes=2, seeds=1, out=tmp_path, workers=1)
        (first, last) = rows_of(tmp_path / "leaderboard.csv")
        assert (first["environment"], first["agent"], first["seed"], first["episodes"]) == (
            "chain-5",
            "ucbvi",
            "0",
            "1",
        )
        assert last["episodes"] == "2"
        words = "mdpfn leaderboard --episodes 2 --seeds 1 --weights mdpfn-2 --agents ucbvi --environments chain-5"
        assert last["command"] == words

    def test_budgets_and_units_are_conditions_of_their_own(self, tmp_path: Path) -> None:
        """Nothing that R-MAX or chance does depends on the unit of rewards, and shares of the best do not either."""
        agents, places = ("r-max", "uniform"), ("chain-5", "bandit-10")
        commands.leaderboard(agents, places, episodes=4, seeds=2, out=tmp_path, workers=1, budgets=(2, 4), units=(8.0,))
        rows = rows_of(tmp_path / "budgets.csv")
        assert {(row["budget"], row["unit"]) for row in rows} == {("2", "1"), ("4", "1"), ("4", "8")}
        names = ("environment", "agent", "seed", "episodes")
        usual, scaled = (
            {tuple(row[n] for n in names): row for row in rows if (row["budget"], row["unit"]) == ("4", unit)}
            for unit in ("1", "8")
        )
        assert usual.keys() == scaled.keys()
        for key, row in usual.items():
            for measure in ("score", "earned"):
                assert float(row[measure]) == pytest.approx(float(scaled[key][measure]), abs=1e-5)
        (table,) = tables_in(tmp_path / "budgets.csv")
        assert [cells[:3] for cells in table.rows[::2]] == [
            ["R-MAX", "2", "× 1"],
            ["R-MAX", "4", "× 1"],
            ["R-MAX", "4", "× 8"],
        ]


class TestRecordedResults:
    """The committed result files show what the paper reports."""

    def test_baselines_converge_as_in_the_paper(self) -> None:
        rows = rows_of(RESULTS / "convergence.csv")
        for method, reported in PAPER.items():
            for environment, expected in reported.items():
                episodes = [
                    int(row["episodes"]) for row in rows if row["agent"] == method and row["environment"] == environment
                ]
                assert len(episodes) == 12
                assert median(episodes) == pytest.approx(expected, rel=0.1), (method, environment)

    def sweep(self, environment: str, penalty: str, transitions: str) -> float:
        scores = [
            float(row["score"])
            for row in rows_of(RESULTS / "offline.csv")
            if (row["environment"], row["agent"]) == (environment, "vi-lcb")
            and (row["options"], row["transitions"]) == (f"penalty = {penalty}", transitions)
        ]
        assert len(scores) == 8
        return float(np.mean(scores))

    @pytest.mark.parametrize("environment", ["gridworld-3x3", "gridworld-5x5"])
    def test_every_penalty_leaves_the_grids_at_the_optimum(self, environment: str) -> None:
        for penalty in ("0.0", "0.1", "0.3", "0.5", "1.0", "2.0"):
            assert self.sweep(environment, penalty, "2048") == pytest.approx(1.0)

    def test_a_large_penalty_drives_the_lake_below_random(self) -> None:
        at = {c: self.sweep("frozen-lake", c, "2048") for c in ("0.0", "0.1", "0.3", "0.5", "1.0", "2.0")}
        assert max(at, key=at.__getitem__) == "0.1"
        assert at["0.1"] > 0.85
        assert at["1.0"] < 0
        assert at["2.0"] < 0

    def test_the_leaderboard_is_broad_and_complete(self) -> None:
        rows = rows_of(RESULTS / "leaderboard.csv")
        environments = {row["environment"] for row in rows}
        assert len(environments) >= 25
        assert len({ENVIRONMENTS[name].family for name in environments}) >= 10
        identity = ("agent", "weights", "options", "environment")
        measured = Counter(tuple(row[name] for name in identity) for row in rows)
        assert set(measured.values()) == {LeaderboardProtocol().seeds * 7}  # after 1, 2, 4, … 64 episodes
        assert {agent for agent, *_ in measured} >= {*BASELINES, IN_CONTEXT}

    def test_nothing_beats_the_optimum_and_uniform_is_its_opposite(self) -> None:
        for row in rows_of(RESULTS / "leaderboard.csv"):
            assert float(row["score"]) <= 1 + 1e-5
            assert np.isfinite(float(row["earned"]))
            if row["agent"] == "uniform":
                assert abs(float(row["score"])) <= 1e-5
