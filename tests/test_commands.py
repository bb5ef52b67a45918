"""`mdpfn solve` and `mdpfn fit`, as typed in a terminal."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mdpfn import cli
from mdpfn.cli.live import BLOCKS, sparkline
from mdpfn.weights import save_model
from tests.interface import tiny_model


@pytest.fixture
def weights(tmp_path: Path) -> str:
    save_model(tmp_path / "tiny.safetensors", tiny_model().network, {})
    return str(tmp_path / "tiny.safetensors")


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["mdpfn", *words])
    cli.main()


def test_solve_compares_draws_and_writes(
    tmp_path: Path, weights: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    baselines = ["ucbvi", "psrl", "q-learning"]
    words = ["solve", "FrozenLake-v1", "--episodes", "6", "--compare", *baselines, "--out", str(tmp_path / "out")]
    run(monkeypatch, *words, "--weights", weights)
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("tiny", *baselines, "6 episodes", "states reached"))
    assert (tmp_path / "out" / "curve.png").read_bytes().startswith(b"\x89PNG")
    report = json.loads((tmp_path / "out" / "result.json").read_text())
    assert set(report["returns"]) == set(report["final_policy_returns"]) == {"tiny", *baselines}
    assert all(len(returns) == 6 for returns in report["returns"].values())
    assert report["result"]["returns"] == report["returns"]["tiny"]


def test_solve_cuts_continuous_observations_into_bins(
    weights: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "solve", "CartPole-v1", "--bins", "2", "--episodes", "2", "--weights", weights)
    assert "of 16 states reached" in capsys.readouterr().out


def test_fit_writes_a_row_per_state(
    tmp_path: Path, weights: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "log.csv"
    data.write_text("place,action,profit,next_state\n" + "home,go,1.5,away\naway,stay,0,home\nhome,stay,0,home\n" * 3)
    run(
        monkeypatch, "fit", str(data), "--columns", "state=place", "reward=profit",
        "--out", str(tmp_path / "policy.csv"), "--weights", weights,
    )  # fmt: skip
    assert "state = place" in capsys.readouterr().out
    rows = list(csv.DictReader((tmp_path / "policy.csv").read_text().splitlines()))
    assert [row["state"] for row in rows] == ["home", "away"]
    assert rows[0]["n(go)"] == "3"
    assert all(row["action"] in ("go", "stay") for row in rows)
    assert sum(float(rows[0][f"p({action})"]) for action in ("go", "stay")) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    "words",
    [
        ("solve", "NoSuchLake-v0"),
        ("solve", "CartPole-v1", "--risk", "0.1"),
        ("solve", "FrozenLake-v1", "--episodes", "0"),
        ("solve", "FrozenLake-v1", "--episodes", "many"),
        ("solve", "FrozenLake-v1", "--compare", "alphago"),
        ("solve", "FrozenLake-v1", "--compare", "ucbvi", "ucbvi"),
        ("solve", "FrozenLake-v1", "--discount", "1"),
        ("solve", "FrozenLake-v1", "--seed", "-1"),
        ("solve", "FrozenLake-v1", "--weights", "no such model"),
        ("solve",),
        ("fit", "nowhere.csv"),
        ("fit", "policy.xlsx"),
        ("fit", "nowhere.csv", "--columns", "state"),
        ("solv", "FrozenLake-v1"),
    ],
)
def test_a_mistake_ends_with_code_2_and_no_traceback(
    words: tuple[str, ...], weights: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = len(words) > 1 and "--weights" not in words and words[0] in ("solve", "fit")
    with pytest.raises(SystemExit) as caught:
        run(monkeypatch, *words, *(("--weights", weights) if known else ()))
    assert caught.value.code == 2
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err
    assert shown.err.strip()


def test_what_cannot_be_compared_is_refused_before_anything_runs(
    weights: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mdpfn.agent.Agent.solve", lambda *_, **__: pytest.fail("it ran"))
    with pytest.raises(SystemExit):
        run(monkeypatch, "solve", "CartPole-v1", "--bins", "16", "--compare", "psrl", "--weights", weights)
    assert "fewer bins" in capsys.readouterr().err


def test_help_and_completion_need_no_torch() -> None:
    code = "import sys\nfrom mdpfn import cli\ntry: cli.main()\nexcept SystemExit: pass\n"
    code += "assert not {'torch', 'numpy', 'gymnasium'} & set(sys.modules), 'slow imports'"
    for words in (["solve", "--help"], ["fit", "--help"], ["--tyro-print-completion", "bash"]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "solve" in done.stdout or "fit" in done.stdout


def test_curves_grow_with_the_episodes() -> None:
    assert sparkline(np.linspace(0, 1, 8), 0.0, 1.0, 8) == BLOCKS
    assert len(sparkline(np.zeros(50), 0.0, 0.0, 100)) == 12
