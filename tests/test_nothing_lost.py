"""After a refused call the agent is what it was before; a fork does not hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from mdpfn import Agent, MdpfnError
from mdpfn.persistence.agent_file import _problem_to_json
from tests.interface import contents
from tests.planned import planned_model


def lived() -> Agent:
    agent = Agent(planned_model()).reset(None, ["left", "right"], seed=0, budget=9)
    for name, following in (("a", "b"), ("b", "c"), ("c", "a")):
        agent.observe(name, agent.act(name), 1.0, following, terminated=False)
    return agent


def snapshot(agent: Agent) -> tuple[Any, str]:
    """Everything that is saved of an agent, but for the time."""
    description = _problem_to_json(agent.problem)
    description["history"].pop("seconds")
    return contents(agent.statistics), json.dumps(description, default=str)


GOOD = {"observation": "x", "action": "left", "reward": 0.0, "next_observation": "y", "terminated": False}


@pytest.mark.parametrize(
    "wrong",
    [
        {"reward": 10**400},
        {"reward": np.longdouble("1e4000")},
        {"reward": 1e308},
        {"reward": float("nan")},
        {"reward": "1"},
        {"reward": None},
        {"action": "up"},
        {"terminated": 1},
        {"terminated": None},
        {"truncated": "no"},
        {"next_observation": ["unhashable"]},
        {"observation": {"un": "hashable"}},
        {"action_mask": [True]},
        {"action_mask": [False, False]},
    ],
    ids=str,
)
def test_a_refused_observation_changes_nothing(wrong: dict[str, Any]) -> None:
    agent = lived()
    before = snapshot(agent)
    with pytest.raises(MdpfnError):
        agent.observe(**{**GOOD, **wrong})
    assert snapshot(agent) == before
    agent.observe(**GOOD)
    assert snapshot(agent) != before


@pytest.mark.parametrize(
    "call",
    [
        lambda agent: agent.reset(3, 2, budget=0),
        lambda agent: agent.reset(3, 2, budget=-1),
        lambda agent: agent.reset(3, 2, budget=2.5),
        lambda agent: agent.reset(3, 2, objective="fame"),
        lambda agent: agent.reset(3, 2, explore="yes"),
        lambda agent: agent.reset(3, 2, discounts=0.9),
        lambda agent: agent.reset(Discrete(10**6), 10**6),
        lambda agent: agent.fit(([0, 1], [0, 1], [1e308, 1e308], [1, 0])),
        lambda agent: agent.fit(([0, 1], [0, 1], [1.0, float("inf")], [1, 0])),
        lambda agent: agent.solve("NoSuchEnvironment-v0"),
        lambda agent: agent.act(["unhashable"]),
        lambda agent: agent.act("new", action_mask=[0, 0]),
        lambda agent: agent.predict("a", action_mask=[1, 0, 0]),
    ],
)
def test_other_refused_calls_change_nothing(call: Callable[[Agent], Any]) -> None:
    agent = lived()
    before = snapshot(agent)
    with pytest.raises(MdpfnError):
        call(agent)
    assert snapshot(agent) == before


FORK = """
import multiprocessing, sys
import numpy as np
from mdpfn import Agent, Statistics

def plan(answers):
    rng = np.random.default_rng(0)
    states, actions, following = rng.integers(200, size=4000), rng.integers(4, size=4000), rng.integers(200, size=4000)
    statistics = Statistics.from_transitions(states, actions, rng.random(4000), following)
    answers.append(int(Agent.from_pretrained("paper").plan(statistics).greedy.sum()))
    sys.exit(answers[0] % 200)

before = []
try:
    plan(before)
except SystemExit:
    pass
child = multiprocessing.get_context("fork").Process(target=plan, args=([],))
child.start()
child.join(60)
print("hangs" if child.is_alive() else child.exitcode == before[0] % 200)
child.kill()
"""


def test_plans_after_a_fork_do_not_hang() -> None:
    """Threads of the parent do not exist in the child: who waits for them waits for ever."""
    threads = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    python = [sys.executable, "-c", FORK]
    done = subprocess.run(python, capture_output=True, text=True, timeout=120, check=False, env=threads)
    assert done.stdout.split() == ["True"], done.stderr
