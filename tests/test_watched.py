"""Progress, callbacks with the names of Stable-Baselines3, and its own evaluation of a policy."""

from __future__ import annotations

import io
import re
import time
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mdpfn import Agent, Callback, MdpfnError
from mdpfn.progress import LINE_EVERY, PATIENCE, Progress, duration, waiting
from tests.interface import tiny_agent

SB3 = pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def at(progress: Progress, clock: list[float], now: float, done: int) -> None:
    clock[0] = now
    progress.update(done, "note")


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["pipe", "terminal"])
def test_nothing_is_said_before_two_seconds_then_the_time_left(stream: io.StringIO) -> None:
    clock = [0.0]
    progress = Progress("episode", 100, stream=stream, clock=lambda: clock[0])
    at(progress, clock, PATIENCE - 0.1, 19)
    assert not stream.getvalue()
    at(progress, clock, 2.0, 20)
    assert stream.getvalue().strip() == "episode 20 of 100 · note · 8 s left"
    at(progress, clock, 2.05, 21)
    at(progress, clock, 4.0, 40)
    shown = stream.getvalue()
    assert ("40 of 100" in shown) == stream.isatty()  # plain lines are rarer
    at(progress, clock, 2.0 + LINE_EVERY, 90)
    assert "90 of 100" in stream.getvalue()
    assert stream.getvalue().count("\n") == (0 if stream.isatty() else 2)
    progress.close()


def test_what_was_done_before_does_not_count_as_speed() -> None:
    clock, stream = [0.0], io.StringIO()
    progress = Progress("cell", 100, done=90, stream=stream, clock=lambda: clock[0])
    at(progress, clock, 5.0, 95)
    assert "5 s left" in stream.getvalue()
    assert [duration(s) for s in (3.2, 300, 9000)] == ["3 s", "5 min", "2.5 h"]


class Noting:
    """What was called, in order."""

    def __init__(self, *, steps: int | None = None) -> None:
        super().__init__()
        self.called: list[str] = []
        self.steps = steps

    def _on_training_start(self) -> None:
        self.called.append("start")

    def _on_rollout_start(self) -> None:
        self.called.append("episode")

    def _on_step(self) -> bool:
        self.called.append("done" if self.locals["dones"][0] else "step")  # type: ignore[attr-defined]
        return self.steps is None or self.n_calls < self.steps  # type: ignore[attr-defined]

    def _on_rollout_end(self) -> None:
        self.called.append("ended")

    def _on_training_end(self) -> None:
        self.called.append("end")


class Ours(Noting, Callback):
    pass


class Theirs(Noting, SB3.common.callbacks.BaseCallback):
    pass


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_callbacks_are_told_what_happens(kind: Any) -> None:
    callback, agent = kind(), tiny_agent()
    result = agent.solve(gym.make("FrozenLake-v1"), 4, seed=0, callback=callback)
    steps = [name for name in callback.called if name in ("step", "done")]
    assert len(steps) == callback.n_calls == result.steps == callback.num_timesteps == agent.num_timesteps
    assert callback.called[:2] == ["start", "episode"]
    assert callback.called[-3:-1] in (["done", "ended"], ["ended", "episode"])
    assert callback.called[-1] == "end"
    assert callback.called.count("ended") == 4
    assert callback.model is agent


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_a_callback_ends_the_run_at_a_step(kind: Any) -> None:
    agent = tiny_agent()
    agent.solve(gym.make("FrozenLake-v1"), 50, seed=0, callback=[kind(steps=7)])
    assert agent.num_timesteps == 7


def test_comparisons_of_numpy_end_a_run_too() -> None:
    for told in ({"on_episode": lambda history: np.bool_(False)}, {"callback": lambda here, there: np.bool_(False)}):
        assert len(tiny_agent().solve(gym.make("FrozenLake-v1"), 9, seed=0, **told).returns) <= 1


def test_a_function_may_be_a_callback_and_changes_nothing() -> None:
    seen: list[bool] = []
    watched, alone = tiny_agent(), tiny_agent()
    env = gym.make("FrozenLake-v1")
    watched.solve(env, 5, seed=0, callback=lambda locals_, globals_: seen.append(locals_["dones"][0]), progress=True)
    alone.solve(env, 5, seed=0, verbose=0)
    assert sum(seen) == 5
    assert watched.problem.history.returns == alone.problem.history.returns


@pytest.mark.parametrize("wrong", [5, "progress", Ours, [None]])
def test_what_cannot_be_called_back_is_refused_before_anything_runs(wrong: Any) -> None:
    agent = tiny_agent()
    with pytest.raises(MdpfnError, match="callback is"):
        agent.solve(gym.make("FrozenLake-v1"), 2, seed=0, callback=wrong)
    with pytest.raises(MdpfnError, match="on_episode is of type int"):
        agent.solve(gym.make("FrozenLake-v1"), 2, seed=0, on_episode=3)  # type: ignore[arg-type]
    with pytest.raises(MdpfnError, match="knows no problem yet"):
        agent.predict(0)


def test_evaluate_policy_of_stable_baselines_takes_the_agent() -> None:
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    agent = Agent.from_pretrained()
    agent.solve(gym.make("FrozenLake-v1", is_slippery=False), 30, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        mean, _ = evaluate_policy(agent, Monitor(gym.make("FrozenLake-v1", is_slippery=False)), n_eval_episodes=5)
    assert mean == 1.0


def test_waiting_says_what_for_once_it_takes_long(monkeypatch):
    monkeypatch.setattr("mdpfn.progress.PATIENCE", 0.05)
    stream = io.StringIO()
    with waiting("reading log.csv", stream):
        time.sleep(0.3)
    assert re.fullmatch(r"reading log.csv · \d+ s\n", stream.getvalue())


def test_what_is_soon_done_is_not_reported():
    stream = io.StringIO()
    with pytest.raises(KeyError), waiting("reading log.csv", stream):
        raise KeyError
    assert stream.getvalue() == ""
