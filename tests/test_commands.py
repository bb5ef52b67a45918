"""`mdpfn solve` and `mdpfn fit`, as typed in a terminal."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from rich.console import Console

from mdpfn import Agent, cli
from mdpfn.cli import live as live_table
from mdpfn.cli.demo import DISCOUNT, EVERY, WORLDS, live
from mdpfn.cli.live import BLOCKS, sparkline
from mdpfn.model.exact import policy_value
from mdpfn.online.history import History
from mdpfn.progress import Progress
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
        ("solve", "FrozenLake-v1", "--env-arg", "map_name"),
        ("solve", "FrozenLake-v1", "--env-arg", "no_such=1"),
        ("solve", "FrozenLake-v1", "--resume", "nowhere"),
        ("predict", "nowhere", "0"),
        ("explain", "nowhere"),
        ("export", "nowhere"),
        ("serve", "nowhere"),
        ("play", "--world", "nowhere.json", "--no-browser"),
        ("figures", "--results", "nowhere"),
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


def answered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """What a command prints with --json: one document, and nothing else on the standard output."""
    capsys.readouterr()
    run(monkeypatch, *words, "--json")
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


def test_an_agent_is_saved_resumed_asked_explained_and_exported(
    tmp_path: Path, weights: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = str(tmp_path / "lake.safetensors")
    lake = ["solve", "FrozenLake-v1", "--env-arg", "map_name=8x8", "--env-arg", "is_slippery=false", "--episodes", "3"]
    first = answered(monkeypatch, capsys, *lake, "--weights", weights, "--save", saved)
    assert len(first["result"]["states"]) == 64
    second = answered(monkeypatch, capsys, *lake, "--resume", saved)
    assert second["returns"]["tiny"][:3] == first["returns"]["tiny"]
    assert len(second["returns"]["tiny"]) == 6
    agent = Agent.load(saved)
    assert agent.evidence.n_transitions == second["result"]["n_transitions"]
    actions = answered(monkeypatch, capsys, "predict", saved, "0", "9")["actions"]
    assert actions == [int(agent.predict(s, on_unknown="best")[0]) for s in (0, 9)]
    (known,) = answered(monkeypatch, capsys, "explain", saved, "0")["explanations"]
    assert known["recommended"] == actions[0]
    policy = tmp_path / "policy.json"
    assert answered(monkeypatch, capsys, "export", saved, "--out", str(policy))["written"] == [str(policy)]
    assert json.loads(policy.read_text())["greedy"][0] == actions[0]


def test_an_interrupt_after_learning_loses_nothing(
    tmp_path: Path, weights: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mdpfn.result.Result.to_dict", interrupted)
    saved = tmp_path / "lake.safetensors"
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, *["solve", "FrozenLake-v1", "--episodes", "3", "--weights"], weights, "--save", str(saved))
    assert ended.value.code == 130
    assert "--resume" in capsys.readouterr().out
    assert len(Agent.load(saved).problem.history.returns) == 3


def test_an_unknown_name_is_said_to_be_one(
    tmp_path: Path, weights: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    places, choices = ["mild", "mild", "hot", "hot"], ["go", "stay"] * 2
    agent = Agent.from_pretrained(weights).fit((places, choices, [1.0] * 4, places[::-1]))
    agent.save(tmp_path / "agent.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        run(monkeypatch, "predict", str(tmp_path / "agent.safetensors"), "midl")
    shown = capsys.readouterr()
    assert shown.out.strip() in ("go", "stay")
    assert "midl" in shown.err


def test_names_are_predicted_for(
    tmp_path: Path, weights: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, saved = tmp_path / "log.csv", str(tmp_path / "agent.safetensors")
    data.write_text("state,action,reward,next_state\n" + "home,go,1.5,away\naway,stay,0,home\nhome,stay,0,home\n" * 3)
    words = ["fit", str(data), "--out", str(tmp_path / "p.csv"), "--save", saved, "--weights", weights]
    assert answered(monkeypatch, capsys, *words)["actions"] == ["go", "stay"]
    assert set(answered(monkeypatch, capsys, "predict", saved, "home", "away")["actions"]) <= {"go", "stay"}
    run(monkeypatch, "explain", saved, "home")
    assert "tried 3 times" in capsys.readouterr().out


def test_an_environment_that_breaks_loses_nothing(
    tmp_path: Path, weights: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Breaks(gym.Wrapper[Any, Any, Any, Any]):
        steps = 0

        def step(self, action: Any) -> Any:
            Breaks.steps += 1
            if Breaks.steps == 40:
                raise RuntimeError("the motor is hot")
            return self.env.step(action)

    gym.register("Breaks-v0", lambda: Breaks(gym.make("FrozenLake-v1")))
    saved = tmp_path / "agent.safetensors"
    try:
        with pytest.raises(SystemExit) as ended:
            run(monkeypatch, "solve", "Breaks-v0", "--episodes", "20", "--weights", weights, "--save", str(saved))
    finally:
        del gym.registry["Breaks-v0"]
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert "the motor is hot" in said
    assert f"what was learned is in {saved}" in said
    assert Agent.load(saved).num_timesteps == 39


def test_warnings_are_sentences(
    tmp_path: Path, weights: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of actions that are percentages, say, most numbers do not exist."""
    data = tmp_path / "log.csv"
    data.write_text("state,action,reward,next_state\n" + "0,0,1,1\n1,10,0,0\n0,20,0,1\n" * 3)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        run(monkeypatch, "fit", str(data), "--out", str(tmp_path / "p.csv"), "--weights", weights)
    said = capsys.readouterr().err
    assert "mdpfn: actions run from 0 to 20, but only 3 of them appear" in said
    assert ".py" not in said


def test_places_are_checked_before_anything_is_learned(
    tmp_path: Path, weights: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for option in ("--save", "--out"):
        with pytest.raises(SystemExit) as ended:
            run(monkeypatch, "solve", "no such environment", option, "/proc/nowhere/x", "--weights", weights)
        assert ended.value.code == 2
        assert "/proc/nowhere" in capsys.readouterr().err  # and nothing of the environment


def test_a_log_of_vectors_leaves_an_agent_and_no_table(
    tmp_path: Path, weights: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, saved, out = tmp_path / "log.csv", tmp_path / "agent.safetensors", tmp_path / "policy.csv"
    rows = [
        f"{i // 10},{i % 10},{i * 0.37 % 1:.3f},{i * 0.71 % 1:.3f},{'push' if i % 3 else 'wait'},1" for i in range(40)
    ]
    data.write_text("id,t,x,y,action,reward\n" + "\n".join(rows) + "\n")
    columns = ["--columns", "episode=id", "time=t", "state=x+y"]
    words = ["fit", str(data), *columns, "--out", str(out), "--weights", weights]
    for wrong in ([], ["--save", str(saved), "--report", str(tmp_path / "report.html")]):
        with pytest.raises(SystemExit) as ended:
            run(monkeypatch, *words, *wrong)
        assert ended.value.code == 2
        assert "--bins" in capsys.readouterr().err
        assert [path.name for path in tmp_path.iterdir() if path.name != "tiny.safetensors"] == ["log.csv"]
    assert answered(monkeypatch, capsys, *words, "--save", str(saved))["written"] == [str(saved)]
    assert Agent.load(saved).num_timesteps == 40


def test_every_command_knows_json_and_train_its_configs(tmp_path: Path) -> None:
    def help_of(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "mdpfn", *words, "--help"], capture_output=True, text=True, check=True
        )
        return done.stdout

    overview = help_of()
    commands = set(overview.partition("{")[2].partition("}")[0].replace("\n", "").replace(" ", "").split(","))
    assert {"solve", "fit", "predict", "explain", "export", "play", "serve", "train", "info"} <= commands
    assert "Exit codes" in overview
    for command in commands:
        assert "--json" in help_of(command), command
    from mdpfn.training.config import CONFIGS

    shown = help_of("train")
    assert all(name in shown for name in CONFIGS)


def test_answers_of_the_rest_are_json(
    tmp_path: Path, weights: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "mdpfn-2" in answered(monkeypatch, capsys, "info")["models"]
    assert answered(monkeypatch, capsys, "info", weights)["network"]["width"] == 16
    picture = tmp_path / "prior.png"
    assert answered(monkeypatch, capsys, "prior", "--show", "1", "--out", str(picture))["written"] == [str(picture)]


def test_ctrl_c_keeps_what_was_learned_and_says_how_to_go_on(tmp_path: Path, weights: str) -> None:
    words = [sys.executable, "-m", "mdpfn", "solve", "FrozenLake-v1", "--episodes", "1000000", "--weights", weights]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # whoever runs the tests may ignore it
    with subprocess.Popen([*words, "--json"], cwd=tmp_path, preexec_fn=heeding, **pipes) as process:
        assert process.stderr is not None
        line = process.stderr.readline()  # after two seconds, in a pipe: a plain line
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert "episode" in line
    assert " left" in line
    assert process.returncode == 130, err
    said = json.loads(out)
    agent = Agent.load(tmp_path / said["saved"])
    assert len(agent.problem.history.returns) == said["episodes"] > 0
    assert said["go_on"] == ["mdpfn", "solve", "FrozenLake-v1", "--resume", said["saved"]]


def test_the_demo_draws_one_picture_and_says_what_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "demo", "--episodes", "3", "--seeds", "1", "--out", str(tmp_path / "demo.png"))
    shown = capsys.readouterr().out
    for name in ("mdpfn-2", "R-MAX", "UCB-VI", "PSRL", "Q-learning", "CliffWalking", "Taxi", "Agent.from_pretrained()"):
        assert name in shown
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_the_demo_shows_what_users_get() -> None:
    lake = WORLDS["FrozenLake"]
    returns, worth = live("mdpfn-2", lake, 6, seed=1)
    agent = Agent.from_pretrained()
    assert returns == agent.solve(lake.gymnasium_id, 6, seed=1, discount=DISCOUNT).returns.tolist()
    mdp = lake.mdp()
    assert worth[-1] == mdp.start @ policy_value(mdp, agent.plan().greedy)
    assert len(worth) == 6 // EVERY


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
    for words in (["solve", "--help"], ["fit", "--help"], ["serve", "--help"], ["--tyro-print-completion", "bash"]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "solve" in done.stdout or words[0] in done.stdout


@pytest.mark.parametrize("terminal", [True, False])
def test_time_left_of_a_resumed_run_is_that_of_its_own_episodes(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock, out = [0.0], io.StringIO()
    monkeypatch.setattr(live_table, "Progress", partial(Progress, clock=lambda: clock[0]))
    ours, other = History(), History()
    with live_table.LiveTable("lake", 10, Console(file=out, force_terminal=terminal, width=120)) as table:
        ours.returns[:], ours.seconds = [0.0] * 91, 91.0
        table.update("ours", ours, lived=90)
        clock[0] = 4.0
        ours.returns[:], ours.seconds = [0.0] * 95, 95.0
        table.update("ours", ours, lived=90)
        other.returns[:], other.seconds = [0.0] * 10, 7.0
        table.update("other", other)
    assert ("ours: episode 95 of 100 · 5 s left" in capsys.readouterr().err) != terminal
    rows = {name: line for line in out.getvalue().splitlines() for name in ("ours", "other") if f" {name} " in line}
    assert "5 s left" in rows["ours"]
    assert "7.0 s" in rows["other"]
    assert "episodes 1 to 100" in out.getvalue()


def test_curves_grow_with_the_episodes() -> None:
    assert sparkline(np.linspace(0, 1, 8), 0.0, 1.0, 8) == BLOCKS
    assert len(sparkline(np.zeros(50), 0.0, 0.0, 100)) == 12
