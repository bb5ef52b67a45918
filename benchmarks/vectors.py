"""What planning and acting cost where observations are vectors, on 5,000 transitions of random actions.

    python -m benchmarks.vectors [--json FILE] [--environments NAME …]

`plan_seconds` is a plan from data that has grown by a tenth, `act_ms` one action, `first_call_seconds` the first plan
on as much data, hyper-parameters included; `megabytes_at_100000` the largest size of the process after 100,000
transitions, of which the densest are forgotten. Times are the best of several. How soon environments are solved is
measured by `mdpfn leaderboard --vectors`.
"""

from __future__ import annotations

import json as json_module
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import tyro

from mdpfn import Agent

ENVIRONMENTS = ("CartPole-v1", "MountainCar-v0", "Acrobot-v1", "Pendulum-v1", "MountainCarContinuous-v0")
TRANSITIONS, MANY = 5_000, 100_000


def main(json: Path | None = None, environments: tuple[str, ...] = ENVIRONMENTS, repeats: int = 5) -> None:
    """Print seconds by environment, and write them to a file."""
    found: dict[str, Any] = {}
    for name in environments:
        found[name] = timed(name, repeats)
        print(name, found[name], flush=True)
    if json is not None:
        json.write_text(json_module.dumps(found, indent=1) + "\n", encoding="utf-8")


def timed(name: str, repeats: int) -> dict[str, float]:
    """Times in one environment."""
    env, agent = gym.make(name), Agent.from_pretrained()
    agent.fit(random_transitions(env, 100), **spaces(env))  # the process has its libraries
    rows = random_transitions(env, TRANSITIONS)
    first = seconds(lambda: agent.fit(rows, **spaces(env)))
    learner, more = agent.problem.learner, random_transitions(env, TRANSITIONS // 10 * repeats, seed=1)
    plans = []
    for part in range(repeats):
        for row in list(zip(*more, strict=True))[part * TRANSITIONS // 10 :][: TRANSITIONS // 10]:
            agent.problem.learner.evidence.add(transition(agent, row))
        plans.append(seconds(learner.replan))
    observation = rows[0][-1]
    acts = [seconds(lambda: agent.act(observation)) for _ in range(20 * repeats)]
    agent.fit(random_transitions(env, MANY), **spaces(env))
    return {
        "plan_seconds": round(min(plans), 4),
        "act_ms": round(1e3 * min(acts), 3),
        "first_call_seconds": round(first, 4),
        "megabytes_at_100000": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def seconds(what: Callable[[], Any]) -> float:
    started = time.perf_counter()
    what()
    return time.perf_counter() - started


def spaces(env: Any) -> dict[str, Any]:
    return {"observation_space": env.observation_space, "action_space": env.action_space}


def transition(agent: Agent, row: tuple[Any, ...]) -> Any:
    from mdpfn import Transition

    state, action, reward, following, terminated = row
    codec = agent.problem.encoding
    return Transition(
        codec.states.encode(state),
        codec.actions.encode(action),
        float(reward),
        codec.states.encode(following),
        terminated,
    )


def random_transitions(env: Any, n: int, seed: int = 0) -> tuple[Any, ...]:
    """(observations, actions, rewards, next observations, terminated) of random actions."""
    env.action_space.seed(seed)
    rows, (observation, _) = [], env.reset(seed=seed)
    while len(rows) < n:
        action = env.action_space.sample()
        following, reward, terminated, truncated, _ = env.step(action)
        rows.append((observation, action, reward, following, terminated))
        observation = env.reset()[0] if terminated or truncated else following
    return tuple(np.array(column) for column in zip(*rows, strict=True))


if __name__ == "__main__":
    tyro.cli(main)
