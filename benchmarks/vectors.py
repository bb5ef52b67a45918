"""How soon environments with vectors for observations are solved, and what planning and acting cost.

    python -m benchmarks.vectors [--json FILE] [--seeds N] [--environments NAME …]

Through `Agent.solve` with its defaults; after so many episodes the policy of `predict` is tried out in fresh episodes,
from which nothing is learned. Seeds and evaluation starts were not looked at while constants were chosen.
"""

from __future__ import annotations

import json as json_module
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import tyro

from mdpfn import Agent, History
from mdpfn.online.evaluation import evaluate

EPISODES = {
    "CartPole-v1": 8,
    "MountainCar-v0": 8,
    "Acrobot-v1": 4,
    "Pendulum-v1": 4,
    "MountainCarContinuous-v0": 2,
}
EVALUATION_EPISODES = 10
FIRST_SEED = 1_000


def main(json: Path | None = None, seeds: int = 5, environments: tuple[str, ...] = tuple(EPISODES)) -> None:
    """Print evaluations by episode, and seconds per episode of learning, and write them to a file."""
    found: dict[str, Any] = {}
    for name in environments:
        lives = [live(name, FIRST_SEED + seed) for seed in range(seeds)]
        checks = lives[0]["evaluation"]
        found[name] = {
            "evaluation": {n: mean(life["evaluation"][n] for life in lives) for n in checks},
            "worst_seed": {n: min(life["evaluation"][n] for life in lives) for n in checks},
            "seeds": seeds,
        }
        found[name] |= {key: mean(life[key] for life in lives) for key in ("earned", "seconds_per_episode", "act_ms")}
        print(name, found[name], flush=True)
    if json is not None:
        json.write_text(json_module.dumps(found, indent=1) + "\n", encoding="utf-8")


def mean(values: Iterable[float]) -> float:
    return round(float(np.mean(list(values))), 2)


def live(name: str, seed: int) -> dict[str, Any]:
    """One life in an environment: evaluations after 1, 2, 4, … episodes, mean return while learning, times."""
    agent, fresh = Agent.from_pretrained(), gym.make(name)
    evaluation: dict[str, float] = {}
    evaluating = 0.0

    def after_episode(history: History) -> None:
        nonlocal evaluating
        n, started = len(history.returns), time.perf_counter()
        if n & (n - 1) == 0:
            problem = agent.problem
            returns = evaluate(problem.best_action, fresh, problem.encoding, EVALUATION_EPISODES, seed=10**6 + seed)
            evaluation[str(n)] = round(float(returns.mean()), 2)
        evaluating += time.perf_counter() - started

    result = agent.solve(gym.make(name), EPISODES[name], seed=seed, on_episode=after_episode)
    observation, _ = fresh.reset(seed=seed)
    started = time.perf_counter()
    for _ in range(20):
        agent.predict(observation)
    return {
        "evaluation": evaluation,
        "earned": float(result.returns.mean()),
        "seconds_per_episode": (result.seconds - evaluating) / len(result.returns),
        "act_ms": 1e3 * (time.perf_counter() - started) / 20,
    }


if __name__ == "__main__":
    tyro.cli(main)
