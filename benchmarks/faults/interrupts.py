"""Attacks with interrupts: at any line of a call, after which the agent is what it was, or learned the whole."""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium as gym
import numpy as np

import mdpfn
from benchmarks.faults.agents import KINDS, fresh, snapshot
from benchmarks.faults.inputs import good
from benchmarks.faults.tally import Tally
from mdpfn import Agent, MdpfnError

PACKAGE = str(Path(mdpfn.__file__).parent)


class LineCounter:
    """Counts the lines of the package that a call runs, and interrupts it at one of them."""

    def __init__(self, at: int | None = None) -> None:
        self.at, self.lines = at, 0

    def __enter__(self) -> LineCounter:
        sys.settrace(self.trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            self.lines += 1
            if self.lines - 1 == self.at:
                raise KeyboardInterrupt
        return self.trace


def calls(kind: str) -> dict[str, Callable[[Agent], object]]:
    """Calls that change an agent: in what it knows, and in what is new to it."""
    here = good(kind)
    known: dict[str, Callable[[Agent], object]] = {
        "observe": lambda agent: agent.observe(**here),
        "observe an end": lambda agent: agent.observe(**{**here, "terminated": True}),
        "act": lambda agent: agent.act(here["observation"]),
    }
    if kind == "names":
        known["observe a new state"] = lambda agent: agent.observe(
            **{**here, "observation": "new", "next_observation": "newer"}
        )
        known["act in a new state"] = lambda agent: agent.act("new", action_mask=[1, 0])
    if kind in ("table", "softmax"):
        mask = {"action_mask": [1, 0, 1, 1]}
        known["observe with a mask"] = lambda agent: agent.observe(
            **{**here, "next_observation": 5, "reward": 7.0, **mask}
        )
        known["observe a new pair"] = lambda agent: agent.observe(14, 3, 1.0, 15, terminated=True)
    return known


def attack_interrupts(directory: Path, rng: random.Random, tries: int) -> Tally:
    """KeyboardInterrupt at a random line: explorer, history and evidence are of one moment."""
    tally = Tally()
    each = [(kind, what, call) for kind in KINDS for what, call in calls(kind).items()]
    for kind, what, call in each:
        agent = fresh(kind)
        before = snapshot(agent)
        with LineCounter() as whole:
            call(agent)
        after = snapshot(agent)
        n = -(-tries // len(each))
        for at in sorted(rng.sample(range(whole.lines), min(n, whole.lines))):
            agent = fresh(kind)
            interrupted = False
            try:
                with LineCounter(at):
                    call(agent)
            except KeyboardInterrupt:
                interrupted = True
            now = snapshot(agent)
            tally.check(
                now in (before, after) if interrupted else now == after,
                f"{kind}: {what} interrupted at line {at} of {whole.lines}",
            )
            if now == before:  # and it goes on as if nothing had happened
                call(agent)
                tally.check(
                    snapshot(agent) == after, f"{kind}: {what} again after an interrupt at line {at} is another"
                )
    return tally


def attack_solving(directory: Path, rng: random.Random, tries: int) -> Tally:
    """A signal at any time while an environment is solved: whole transitions are kept, and it goes on."""
    tally = Tally()

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        for number in range(tries):
            name = "CartPole-v1" if number % 4 == 3 else "FrozenLake-v1"
            agent, env = Agent.from_pretrained(), gym.make(name)
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.001, 0.15))
                agent.solve(env, episodes=30, seed=number)
            except KeyboardInterrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            tally.check(is_consistent(agent), f"{name}: out of step after an interrupt")
            tally.attempt(
                f"{name}: does not go on",
                lambda a=agent, e=env: a.solve(e, 1, max_episode_steps=30, resume=knows_something(a)),
            )
    finally:
        signal.signal(signal.SIGALRM, previous)
    return tally


def knows_something(agent: Agent) -> bool:
    try:
        return agent.evidence.n_transitions > 0
    except MdpfnError:
        return False


def is_consistent(agent: Agent) -> bool:
    """Whether evidence, history and clock have seen the same transitions."""
    if not knows_something(agent):
        return True
    problem = agent.problem
    history, clock = problem.history, problem.learner.clock
    under_way = sum(episode.length for episode in history.under_way.values())
    same = len(history.returns) == len(history.lengths) == len(history.discounted_returns) == clock.episode
    return same and sum(history.lengths) + under_way == agent.evidence.n_transitions and clock.step == under_way


def attack_threads(directory: Path, rng: random.Random, tries: int) -> Tally:
    """Threads that share an agent: every call works or is refused, and what worked is counted exactly."""
    tally, interval = Tally(), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for number in range(tries):
            kind = KINDS[number % len(KINDS)]
            tally.check(*share(fresh(kind), kind))
            tally.check(*solve_twice())
    finally:
        sys.setswitchinterval(interval)
    return tally


def share(agent: Agent, kind: str) -> tuple[bool, str]:
    here, wrong = good(kind), []
    n_before = agent.evidence.n_transitions

    def live() -> None:
        for _ in range(6 if kind == "vectors" else 60):
            try:
                agent.act(here["observation"])
                agent.observe(**here)
                agent.predict(here["observation"])
                refused.append(0)
            except MdpfnError:
                refused.append(1)
            except Exception as error:
                wrong.append(f"{kind}: {type(error).__name__}: {error}")

    refused: list[int] = []
    threads = [threading.Thread(target=live) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    n_worked = len(refused) - sum(refused)
    if not wrong and not n_worked <= agent.evidence.n_transitions - n_before <= len(refused):
        wrong.append(f"{kind}: {agent.evidence.n_transitions - n_before} of {n_worked} transitions counted")
    if not wrong and snapshot(agent) == "":
        wrong.append(f"{kind}: cannot be saved")
    return not wrong, "; ".join(wrong[:2])


def solve_twice() -> tuple[bool, str]:
    """Two threads solve with one agent: one of them is refused, or they follow each other."""
    agent, wrong, done = Agent.from_pretrained("paper"), [], []

    def solve() -> None:
        try:
            done.append(agent.solve("FrozenLake-v1", episodes=3, seed=0).returns)
        except MdpfnError as error:
            if "thread" not in str(error):
                wrong.append(str(error))
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=solve) for _ in range(2)]
    for thread in threads:
        thread.start()
        time.sleep(0.002)
    for thread in threads:
        thread.join()
    good_ones = [len(returns) == 3 and np.array_equal(returns, done[0]) for returns in done]
    return not wrong and bool(done) and all(good_ones), f"two solve at once: {wrong[:1]}, {len(done)} done"
