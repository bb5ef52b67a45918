"""Environments on disk: what is written is read again, other people's files too, and malformed ones are refused."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mdpfn import cli
from mdpfn.bench.environments import ENVIRONMENTS, Environment, load_environment, load_environments, save_environment
from mdpfn.bench.protocols import leaderboard, offline_leaderboard
from mdpfn.bench.protocols.leaderboard import LeaderboardProtocol
from mdpfn.bench.protocols.methods import Method
from mdpfn.bench.protocols.offline_leaderboard import PENALTIES, OfflineLeaderboardProtocol, variants
from mdpfn.errors import MdpfnError
from mdpfn.model.exact import Scorer
from mdpfn.model.mdp import TabularMDP


def two_states(**changes: Any) -> dict[str, Any]:
    """A file's arrays: from state 0, action 1 reaches the terminal state 1 for a reward; action 0 stays at a cost."""
    arrays: dict[str, Any] = {
        "P_idx": np.array([0, 3, 5, 7], dtype=np.int32),
        "P_val": np.ones(4, dtype=np.float32),
        "r": np.array([[-0.1, 1.0], [0.0, 0.0]]),
        "reward_sd": np.zeros((2, 2)),
        "start": np.array([1.0, 0.0]),
        "absorbing": np.array([False, True]),
        "horizon": -1,
    }
    return {key: value for key, value in {**arrays, **changes}.items() if value is not None}


def write(path: Path, **changes: Any) -> Path:
    np.savez(path, **two_states(**changes))
    return path


class TestReading:
    @pytest.mark.parametrize("name", ["frozen-lake", "car-rental", "taxi", "river-swim-6"])
    def test_what_was_saved_is_read_again(self, name: str, tmp_path: Path) -> None:
        mdp = ENVIRONMENTS[name].build()
        save_environment(tmp_path / "mine.npz", mdp, horizon=120)
        found = load_environment(tmp_path / "mine.npz")
        again = found.build()
        assert (found.name, found.horizon) == ("mine", 120)
        np.testing.assert_allclose(again.transition.toarray(), mdp.transition.toarray(), rtol=1e-12)
        for field in ("reward", "start", "terminal", "outcome_reward", "reward_std", "discount"):
            np.testing.assert_allclose(getattr(again, field), getattr(mdp, field), rtol=1e-12, err_msg=field)

    def test_sparse_and_dense_transitions_are_the_same(self, tmp_path: Path) -> None:
        dense = np.zeros(8)
        dense[[0, 3, 5, 7]] = 1
        sparse = load_environment(write(tmp_path / "a.npz")).build()
        other = load_environment(write(tmp_path / "b.npz", P=dense.reshape(2, 2, 2), P_idx=None, P_val=None)).build()
        np.testing.assert_array_equal(sparse.dense_transition, other.dense_transition)
        np.testing.assert_array_equal(sparse.reward, other.reward)

    def test_only_transitions_and_rewards_are_required(self, tmp_path: Path) -> None:
        rest = dict.fromkeys(("reward_sd", "start", "absorbing", "horizon"))
        found = load_environment(write(tmp_path / "a.npz", **rest))
        mdp = found.build()
        assert (found.horizon, mdp.discount) == (50, 0.95)
        assert mdp.start.tolist() == [1, 0]
        assert not mdp.terminal.any()
        assert not mdp.reward_std.any()

    def test_rewards_of_outcomes_replace_their_mean_whatever_the_order(self, tmp_path: Path) -> None:
        changes = {"P_idx": [7, 5, 3, 1, 0], "P_val": [1, 1, 1, 0.75, 0.25], "r_sas_val": [0, 0, 2.0, 4.0, 8.0]}
        mdp = load_environment(write(tmp_path / "a.npz", **changes)).build()
        assert mdp.reward.tolist() == [[5.0, 2.0], [0.0, 0.0]]
        assert mdp.outcome_reward.tolist()[:3] == [8.0, 4.0, 2.0]

    def test_single_precision_is_enough(self, tmp_path: Path) -> None:
        third = np.float32(1 / 3)
        thirds = np.full((3, 1, 3), third)
        path = tmp_path / "a.npz"
        np.savez(path, P=thirds, r=np.zeros((3, 1)), start=np.full(3, third))
        assert load_environment(path).build().transition.sum(axis=1) == pytest.approx(1, abs=1e-12)

    @pytest.mark.parametrize(("stored", "used"), [(-1, 50), (6, 50), (120, 120), (10**6, 200)])
    def test_horizons_are_clipped(self, stored: int, used: int, tmp_path: Path) -> None:
        assert load_environment(write(tmp_path / "a.npz", horizon=stored)).horizon == used

    def test_a_discount_in_the_file_counts(self, tmp_path: Path) -> None:
        assert load_environment(write(tmp_path / "a.npz", discount=0.8)).build().discount == 0.8

    def test_a_folder_is_read_by_name(self, tmp_path: Path) -> None:
        for name in ("lake", "chain"):
            write(tmp_path / f"{name}.npz")
        (tmp_path / "notes.txt").write_text("not an MDP")
        assert [found.name for found in load_environments(tmp_path)] == ["chain", "lake"]


class TestMistakes:
    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"r": None}, "r"),
            ({"r": np.zeros(4)}, "r"),
            ({"r": np.zeros((0, 2))}, "r"),
            ({"r": [[np.nan, 0], [0, 0]]}, "r"),
            ({"P_idx": None}, "P"),
            ({"P_val": None}, "P_val"),
            ({"P_val": np.ones(3)}, "P_val"),
            ({"P_val": [1, 1, 1, np.inf]}, "P_val"),
            ({"P_val": [1, 1, 1, 0.5]}, "transition"),
            ({"P_val": [1, 1, 1, -1]}, "transition"),
            ({"P_idx": [0, 3, 5, 8]}, "P_idx"),
            ({"P_idx": [0, 3, 5, -1]}, "P_idx"),
            ({"P_idx": [0, 3, 5, 6.5]}, "P_idx"),
            ({"P_idx": [0, 3, 5, 5]}, "P_idx"),
            ({"P_idx": None, "P_val": None, "P": np.ones((2, 2))}, "P"),
            ({"r_sas_val": np.zeros(3)}, "r_sas_val"),
            ({"P_idx": None, "P": np.full((2, 2, 2), 0.5), "r_sas_val": np.zeros(8)}, "r_sas_val"),
            ({"reward_sd": np.zeros(2)}, "reward_std"),
            ({"reward_sd": [[0, 0], [0, -1]]}, "reward_std"),
            ({"start": [0.5, 0.4]}, "start"),
            ({"start": np.ones(3) / 3}, "start"),
            ({"absorbing": np.zeros(3, dtype=bool)}, "terminal"),
            ({"discount": 1.0}, "discount"),
            ({"discount": [0.9, 0.9]}, "discount"),
            ({"horizon": 70.5}, "horizon"),
            ({"horizon": "long"}, "horizon"),
        ],
    )
    def test_in_a_file_are_named_with_it(self, changes: dict[str, Any], field: str, tmp_path: Path) -> None:
        with pytest.raises(MdpfnError) as caught:
            load_environment(write(tmp_path / "lake.npz", **changes))
        assert caught.value.field == f"lake.npz: {field}"

    @pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"state,action,reward\n0,1,2\n"])
    def test_other_files_are_refused(self, content: bytes, tmp_path: Path) -> None:
        (tmp_path / "lake.npz").write_bytes(content)
        with pytest.raises(MdpfnError, match="npz"):
            load_environments(tmp_path)

    def test_pickles_and_single_arrays_are_refused(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "a.npz", r=np.array([None, {}], dtype=object))
        with (tmp_path / "b.npz").open("wb") as file:
            np.save(file, np.zeros(3))
        for name in ("a", "b"):
            with pytest.raises(MdpfnError, match="plain arrays"):
                load_environment(tmp_path / f"{name}.npz")

    def test_an_empty_folder_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(MdpfnError, match="folder"):
            load_environments(tmp_path)


class TestOfflineLeaderboard:
    SMALL = OfflineLeaderboardProtocol(seeds=2, sizes=(16, 512))

    def test_enough_data_shows_the_optimum_and_cloning_shows_chance(self) -> None:
        grid = ENVIRONMENTS["gridworld-3x3"]
        planned = offline_leaderboard.measure(self.SMALL, grid, Method("certainty-equivalence"))
        cloned = offline_leaderboard.measure(self.SMALL, grid, Method("behaviour-cloning"))
        assert [(row["seed"], row["transitions"]) for row in planned] == [(0, 16), (0, 512), (1, 16), (1, 512)]
        assert planned[1]["score"] == pytest.approx(1.0)
        assert cloned[1]["score"] == pytest.approx(0.0, abs=0.3)

    def test_penalties_are_relative_to_the_rewards(self, tmp_path: Path) -> None:
        lake = ENVIRONMENTS["frozen-lake"].build()
        scores = []
        for scale in (1.0, 1000.0):
            mdp = TabularMDP.from_sparse(
                lake.transition, 4, outcome_reward=scale * lake.outcome_reward, start=lake.start, terminal=lake.terminal
            )
            save_environment(tmp_path / "lake.npz", mdp)
            rows = offline_leaderboard.measure(
                self.SMALL, load_environment(tmp_path / "lake.npz"), Method("vi-lcb", {"penalty": 0.1})
            )
            scores.append([row["score"] for row in rows])
        assert scores[0] == pytest.approx(scores[1], abs=1e-4)

    def test_vi_lcb_is_measured_with_every_penalty(self) -> None:
        assert [method.options["penalty"] for method in variants(Method("vi-lcb"))] == list(PENALTIES)
        assert variants(Method("behaviour-cloning")) == [Method("behaviour-cloning")]


class TestCommand:
    def run(self, monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
        monkeypatch.setattr(sys, "argv", ["mdpfn", "leaderboard", *words])
        cli.main()

    def test_measures_the_files_of_a_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write(tmp_path / "leave.npz")
        words = ["--mdps", str(tmp_path), "--agents", "ucbvi", "uniform", "--episodes", "4", "--seeds", "2"]
        self.run(monkeypatch, *words, "--out", str(tmp_path / "scores.csv"), "--workers", "1")
        with (tmp_path / "scores.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert {row["environment"] for row in rows} == {"leave"}
        assert {row["episodes"] for row in rows} == {"1", "2", "4"}
        last = {row["agent"]: float(row["score"]) for row in rows if row["episodes"] == "4"}
        assert last == {"ucbvi": pytest.approx(1.0), "uniform": pytest.approx(0.0)}
        assert "100%" in capsys.readouterr().out

    def test_measures_offline(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write(tmp_path / "leave.npz")
        words = ["--mdps", str(tmp_path), "--agents", "vi-lcb", "behaviour-cloning", "--offline", "--seeds", "1"]
        self.run(monkeypatch, *words, "--out", str(tmp_path / "scores.csv"), "--workers", "1")
        shown = capsys.readouterr().out
        assert all(word in shown for word in ("2048", "best c of each", "c = 0.3", "behaviour-cloning"))

    @pytest.mark.parametrize(("out", "remedy"), [("results", "--out FILE.csv"), ("scores.csv", "choose another file")])
    def test_refuses_to_write_over_anything_else(
        self, out: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write(tmp_path / "leave.npz")
        (tmp_path / "scores.csv").write_text("name,age\nAda,36\n")
        words = ["--mdps", str(tmp_path), "--agents", "uniform", "--out", str(tmp_path / out), "--workers", "1"]
        with pytest.raises(SystemExit) as stopped:
            self.run(monkeypatch, *words)
        assert stopped.value.code == 2
        assert remedy in capsys.readouterr().err
        assert (tmp_path / "scores.csv").read_text() == "name,age\nAda,36\n"


def settings_on(environment: Environment) -> object:
    """What the rows of this environment depend on."""
    [cell] = leaderboard.cells_on([environment], [Method("rmax")], LeaderboardProtocol(), leaderboard.measure)
    return cell.settings


def test_rows_of_a_changed_file_are_stale(tmp_path: Path) -> None:
    write(tmp_path / "a.npz")
    before = settings_on(load_environment(tmp_path / "a.npz"))
    write(tmp_path / "a.npz", discount=0.9)
    after = settings_on(load_environment(tmp_path / "a.npz"))
    assert before != after
    assert settings_on(load_environment(tmp_path / "a.npz")) == after
    assert settings_on(ENVIRONMENTS["taxi"]) == settings_on(ENVIRONMENTS["frozen-lake"])  # these have no file


def test_a_loaded_environment_scores_like_the_original(tmp_path: Path) -> None:
    lake = ENVIRONMENTS["frozen-lake"].build()
    save_environment(tmp_path / "lake.npz", lake)
    policy = np.random.default_rng(0).integers(4, size=16)
    assert Scorer(load_environment(tmp_path / "lake.npz").build())(policy) == pytest.approx(Scorer(lake)(policy))
