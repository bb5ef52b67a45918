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
from mdpfn.bench.protocols.rollouts import run_episode

from mdpfn.baselines import AGENTS, Agent, Transition, Uniform
from mdpfn.bench.environments import ENVIRONMENTS, Simulator
from mdpfn.bench.protocols import commands, convergence, leaderboard, learning_curves, offline
from mdpfn.bench.protocols.convergence import ConvergenceProtocol, window_start
from mdpfn.bench.protocols.leaderboard import LeaderboardProtocol
from mdpfn.bench.protocols.learning_curves import LearningCurveProtocol
from mdpfn.bench.protocols.methods import Method, StoredPlanner
from mdpfn.bench.protocols.offline import OfflineProtocol
from mdpfn.bench.protocols.parallel import generator, measure_cells
from mdpfn.bench.protocols.results import Cell, ResultsFile, Row
from mdpfn.errors import MdpfnError
from mdpfn.evidence.statistics import PairTable
from mdpfn.planners.output import PlannerOutput
from mdpfn.planners.problem_info import ProblemInfo

RESULTS = Path(__file__).parent.parent / "results"
PAPER = {
    "ucbvi": {"gridworld-3x3": 16, "gridworld-5x5": 53, "frozen-lake": 46},
    "q-learning": {"gridworld-3x3": 469, "gridworld-5x5": 1205, "frozen-lake": 1014},
}


def optimistic_outlooks(batch: PairTable, info: ProblemInfo) -> list[PlannerOutput]:
    """Stands in for a network: plans on the empirical model, in which unvisited pairs pay half the scale."""
    found = []
    for i in range(len(batch)):
        z = batch.dense_z(i)
        reward = np.where(z[:, 0] == 0, 0.5, z[:, 1])
        value = np.zeros(batch.n_states[i])
        for _ in range(100):
            q = (reward + 0.95 * z[:, 2:] @ value).reshape(len(value), -1)
            value = q.max(axis=1)
        found.append(PlannerOutput(5 * q))
    return found


def load_optimistic(depth: int | None) -> object:
    return optimistic_outlooks


PLANNER = StoredPlanner("optimistic", "0123456789ab", "softmax", load_optimistic)


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
    def run(self, path: Path, workers: int) -> str:
        protocol = LeaderboardProtocol(episodes=4, seeds=2)
        methods = [Method("psrl"), Method("q-learning"), Method("in-context", planner=PLANNER)]
        environments = [ENVIRONMENTS["river-swim-6"], ENVIRONMENTS["bandit-10"]]
        leaderboard.run(protocol, methods, environments, path, command="c", workers=workers)
        return path.read_text()

    @pytest.mark.slow
    def test_their_number_changes_nothing_and_finished_cells_are_not_measured_again(self, tmp_path: Path) -> None:
        one, two = tmp_path / "one.csv", tmp_path / "two.csv"
        assert self.run(one, 1) == self.run(two, 2)
        before = two.stat().st_mtime_ns
        self.run(two, 2)
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
            measure_cells(cells, results, workers=1, title="")
        assert [row["environment"] for row in rows_of(tmp_path / "r.csv")] == ["a"]


N_SLOW_CELLS = 12


def slow_row(name: str, pause: float) -> list[Row]:
    time.sleep(pause)
    return [{"score": round(generator("slow", name).random(), 6)}]


def slow_cells(path: Path, pause: float) -> None:
    results = ResultsFile(path, ("environment",), ("score",), "c")
    cells = [Cell((str(i),), 1, "", partial(slow_row, str(i), pause)) for i in range(N_SLOW_CELLS)]
    measure_cells(cells, results, workers=1, title="slow")


def failing_measurement() -> list[Row]:
    raise MdpfnError("discount", 2, "it must lie in [0, 1)", "use a value such as 0.95")


class TestEpisodes:
    class Recorder(Uniform):
        def __init__(self, *sizes: int, rng: np.random.Generator) -> None:
            super().__init__(*sizes, discount=0.95, rng=rng)
            self.seen: list[Transition] = []

        def observe(self, transition: Transition) -> None:
            self.seen.append(transition)

    def episode(self, horizon: int, *, terminal_ends: bool) -> list[Transition]:
        rng = np.random.default_rng(0)
        agent = self.Recorder(16, 4, rng=rng)
        total = run_episode(
            agent, Simulator(ENVIRONMENTS["frozen-lake"].build(), rng), horizon, terminal_ends=terminal_ends
        )
        assert total == pytest.approx(sum(transition.reward for transition in agent.seen))
        return agent.seen

    def test_run_through_terminal_states_as_in_the_paper(self) -> None:
        seen = self.episode(50, terminal_ends=False)
        assert len(seen) == 50
        assert seen[-1].state == seen[-1].next_state
        assert not any(transition.terminated for transition in seen)
        assert [transition.truncated for transition in seen] == [False] * 49 + [True]

    def test_end_in_them_where_asked(self) -> None:
        seen = self.episode(500, terminal_ends=True)
        assert len(seen) < 500
        assert [transition.terminated for transition in seen] == [False] * (len(seen) - 1) + [True]
        assert not seen[-1].truncated

    def test_connect(self) -> None:
        seen = self.episode(20, terminal_ends=False)
        assert seen[0].state == 0
        assert all(a.next_state == b.state for a, b in pairwise(seen))


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
    def test_ucbvi_takes_as_long_as_in_the_paper(self, environment: str, expected: int) -> None:
        protocol = ConvergenceProtocol(seeds=1)
        (row,) = convergence.measure(protocol, environment, protocol.methods(None)[1])
        assert row == {"seed": 0, "episodes": expected}

    def test_is_never_claimed_too_early(self) -> None:
        protocol = ConvergenceProtocol(seeds=2, max_episodes=22)
        found = {m.name: convergence.measure(protocol, "gridworld-3x3", m) for m in protocol.methods(PLANNER)}
        assert [row["episodes"] for row in found["q-learning"]] == [None, None]
        assert [row["episodes"] for row in found["ucbvi"]] == [None, None]  # the window from 16 on ends at 23
        assert all(isinstance(row["episodes"], int) and row["episodes"] < 15 for row in found["in-context"])

    def test_a_seed_does_not_depend_on_how_many_there_are(self) -> None:
        protocol = ConvergenceProtocol(seeds=3)
        method = protocol.methods(PLANNER)[-1]
        many = convergence.measure(protocol, "frozen-lake", method)
        assert convergence.measure(replace(protocol, seeds=1), "frozen-lake", method) == many[:1]

    def test_only_the_baselines_are_told_the_true_range(self) -> None:
        info: list[dict[str, object]] = []

        def recording(self: Method, mdp: object, **given: object) -> object:
            info.append(given)
            return original(self, mdp, **given)  # type: ignore[arg-type]

        original = Method.maker
        protocol = ConvergenceProtocol(seeds=1, max_episodes=1)
        with pytest.MonkeyPatch.problem() as patch:
            patch.setattr(Method, "maker", recording)
            for method in protocol.methods(PLANNER):
                convergence.measure(protocol, "gridworld-3x3", method)
        assert info == [{"reward_range": (-1.0, 9.0)}, {"reward_range": (-1.0, 9.0)}, {}]


class TestLearningCurves:
    SMALL = LearningCurveProtocol(seeds=2, episodes=8, greedy_rollouts=4, reference_episodes=50)

    def test_settings_are_the_papers(self) -> None:
        protocol = LearningCurveProtocol()
        assert (protocol.episodes, protocol.horizon, protocol.acting_temperature) == (512, 50, 0.3)
        assert sorted(protocol.depths) == [4, 8, 16, 20, 24, 38]
        assert (protocol.greedy_rollouts, protocol.reference_episodes) == (256, 2000)

    def test_probes_are_the_powers_of_two(self) -> None:
        rows = learning_curves.measure(self.SMALL, "frozen-lake", Method("in-context", planner=PLANNER))
        assert [(row["seed"], row["episodes"]) for row in rows] == [(s, n) for s in (0, 1) for n in (1, 2, 4, 8)]

    def test_an_optimal_policy_scores_one(self) -> None:
        protocol = replace(self.SMALL, episodes=32, reference_episodes=500)
        rows = learning_curves.measure(protocol, "gridworld-3x3", Method("in-context", planner=PLANNER))
        last = rows[5]
        assert last["return"] == 10 - 4  # four steps, the last into the goal
        assert last["score"] == pytest.approx(1.0)

    def test_references_bracket_the_scale(self) -> None:
        mdp = ENVIRONMENTS["frozen-lake"].build()
        protocol = replace(self.SMALL, reference_episodes=400)
        random, optimal = learning_curves.reference_returns(protocol, "frozen-lake", mdp)
        assert -1 < random < -0.5 < 0.4 < optimal < 1

    def test_only_the_first_of_the_rollouts_is_observed(self) -> None:
        observed: list[int] = []

        class Counting(Uniform):
            def observe(self, transition: Transition) -> None:
                observed.append(transition.state)

        class CountingMethod(Method):
            def maker(self, mdp: object, **info: object) -> object:  # type: ignore[override]
                return partial(Counting, 16, 4, discount=0.95)

        protocol = replace(self.SMALL, seeds=1, episodes=4)
        learning_curves.measure(protocol, "frozen-lake", CountingMethod("uniform"))
        assert len(observed) == 4 * 50


class TestOffline:
    def test_settings_are_the_papers(self) -> None:
        protocol = OfflineProtocol()
        assert protocol.sizes == tuple(2**k for k in range(3, 12))
        assert (protocol.seeds, protocol.horizon, protocol.depth) == (8, 50, 24)
        assert protocol.penalties == (0.0, 0.1, 0.3, 0.5, 1.0, 2.0)

    def test_the_stream_restarts_in_terminal_states_and_after_the_horizon(self) -> None:
        mdp = ENVIRONMENTS["gridworld-5x5"].build()
        stream = offline.uniform_stream(mdp, np.random.default_rng(0), 600, horizon=50)
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
        lcb = offline.measure(protocol, "gridworld-3x3", Method("vi-lcb", {"penalty": 0.0}))
        same = offline.measure(protocol, "gridworld-3x3", Method("certainty-equivalence"))
        assert [row["transitions"] for row in lcb] == [8, 2048, 8, 2048]
        assert lcb[1] == same[1] == {"seed": 0, "transitions": 2048, "score": pytest.approx(1.0)}


class TestReproduce:
    @pytest.mark.slow
    def test_every_protocol_fills_its_file(self, tmp_path: Path) -> None:
        grid: dict[str, Any] = {"environments": ("gridworld-3x3",), "seeds": 2}
        run: dict[str, Any] = {"command": "mdpfn reproduce", "workers": 2}
        table_protocol = ConvergenceProtocol(max_episodes=12, **grid)
        data_protocol = OfflineProtocol(sizes=(8, 16), penalties=(0.1,), **grid)
        depth_protocol = LearningCurveProtocol(depths=(4, 8), episodes=2, reference_episodes=10, **grid)
        convergence.run(table_protocol, PLANNER, tmp_path / "convergence.csv", **run)
        offline.run(data_protocol, PLANNER, tmp_path / "offline.csv", **run)
        learning_curves.run(depth_protocol, PLANNER, tmp_path / "learning_curves.csv", **run)
        table = rows_of(tmp_path / "convergence.csv")
        assert [(row["method"], row["weights"], row["depth"], row["seed"]) for row in table] == [
            ("in-context", "optimistic", "24", "0"),
            ("in-context", "optimistic", "24", "1"),
            ("q-learning", "", "", "0"),
            ("q-learning", "", "", "1"),
            ("ucbvi", "", "", "0"),
            ("ucbvi", "", "", "1"),
        ]
        assert [row["episodes"] for row in table[2:]] == [""] * 4
        data = [(r["method"], r["weights"], r["depth"], r["penalty"]) for r in rows_of(tmp_path / "offline.csv")]
        assert data == [("in-context", "optimistic", "24", "")] * 4 + [("vi-lcb", "", "", "0.1")] * 4
        curves = [(r["depth"], r["seed"], r["episodes"]) for r in rows_of(tmp_path / "learning_curves.csv")]
        assert curves == [(depth, seed, n) for depth in "48" for seed in "01" for n in "12"]
        assert {row["weights_hash"] for row in table[:2]} == {PLANNER.weights_hash}

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
        self, what: commands.Experiment, files: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        ran: list[str] = []

        def record(protocol: object, planner: StoredPlanner, path: Path, *, command: str, workers: int) -> None:
            assert (planner, workers) == (PLANNER, 3)
            assert command == f"mdpfn reproduce {what} --weights optimistic"
            ran.append(path.name)

        monkeypatch.setattr("mdpfn.bench.protocols.methods.stored_planner", lambda weights: PLANNER)
        for module in (convergence, offline, learning_curves):
            monkeypatch.setattr(module, "run", record)
        commands.reproduce(what, weights="optimistic", out=tmp_path, workers=3)
        assert ran == files


class TestLeaderboard:
    def test_scores_after_powers_of_two(self) -> None:
        rows = leaderboard.measure(
            LeaderboardProtocol(episodes=8, seeds=2), ENVIRONMENTS["gridworld-3x3"], Method("ucbvi")
        )
        assert [(row["seed"], row["episodes"]) for row in rows] == [(s, n) for s in (0, 1) for n in (1, 2, 4, 8)]

    def test_uniform_scores_zero_and_a_learner_one(self) -> None:
        protocol = LeaderboardProtocol(episodes=32, seeds=2)
        uniform = leaderboard.measure(protocol, ENVIRONMENTS["gridworld-3x3"], Method("uniform"))
        learner = leaderboard.measure(protocol, ENVIRONMENTS["gridworld-3x3"], Method("in-context", planner=PLANNER))
        assert all(row["score"] == pytest.approx(0.0) for row in uniform)
        assert learner[-1]["score"] == pytest.approx(1.0)

    def test_agents_learn_of_termination(self) -> None:
        made: list[Agent] = []

        class RecordingMethod(Method):
            def maker(self, mdp: object, **info: object) -> object:  # type: ignore[override]
                make = super().maker(mdp, **info)  # type: ignore[arg-type]
                return lambda **given: made.append(make(**given)) or made[-1]

        leaderboard.measure(
            LeaderboardProtocol(episodes=20, seeds=1), ENVIRONMENTS["frozen-lake"], RecordingMethod("uniform")
        )
        assert made[0].statistics.terminal <= {5, 7, 11, 12, 15}
        assert made[0].statistics.terminal

    @pytest.mark.parametrize(
        ("wrong", "field"),
        [
            ({"agents": ("ucbvi", "alphazero")}, "agents"),
            ({"environments": ("chess",)}, "environments"),
            ({"episodes": 0}, "episodes"),
            ({"seeds": 0}, "seeds"),
            ({"workers": 0}, "workers"),
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
        words = "mdpfn leaderboard --episodes 2 --seeds 1 --weights mdpfn-1 --agents ucbvi --environments chain-5"
        assert last["command"] == words


class TestRecordedResults:
    """The committed result files show what the paper reports."""

    def test_baselines_converge_as_in_the_paper(self) -> None:
        rows = rows_of(RESULTS / "convergence.csv")
        for method, reported in PAPER.items():
            for environment, expected in reported.items():
                episodes = [
                    int(row["episodes"])
                    for row in rows
                    if row["method"] == method and row["environment"] == environment
                ]
                assert len(episodes) == 12
                assert median(episodes) == pytest.approx(expected, rel=0.1), (method, environment)

    def sweep(self, environment: str, penalty: str, transitions: str) -> float:
        scores = [
            float(row["score"])
            for row in rows_of(RESULTS / "offline.csv")
            if (row["environment"], row["method"]) == (environment, "vi-lcb")
            and (row["penalty"], row["transitions"]) == (penalty, transitions)
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
        measured = Counter((row["agent"], row["weights"], row["environment"]) for row in rows)
        assert set(measured.values()) == {5 * 7}  # seeds, and 1, 2, 4, … 64 episodes
        assert {agent for agent, _, _ in measured} >= set(AGENTS)

    def test_nothing_beats_the_optimum_and_uniform_is_its_opposite(self) -> None:
        for row in rows_of(RESULTS / "leaderboard.csv"):
            assert float(row["score"]) <= 1 + 1e-5
            if row["agent"] == "uniform":
                assert abs(float(row["score"])) <= 1e-5
