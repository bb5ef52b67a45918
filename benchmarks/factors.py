"""What factors add: the same agent, given states as discrete factors and as bare numbers.

    python -m benchmarks.factors [--json FILE] [--seeds N] [--episodes N] [--worlds …]

By world: the mean return of all episodes (earned), of fresh episodes with the final policy (final), and seconds per
life; Taxi with and without its action masks besides, and from which episode on it stays solved. Worlds that are not
measured keep what the file says of them.
"""

from __future__ import annotations

import json as json_module
import time
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import tyro

from benchmarks.factored_worlds import WORLDS, FactoredEnv
from mdpfn import Agent

TAXI, TAXI_EPISODES, SOLVED = "Taxi", 100, 0.0  # a mean return above this over the seeds, from here to the end


class TaxiFactors(gym.ObservationWrapper[Any, Any, Any]):
    """Taxi's row, column, passenger and destination."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = gym.spaces.MultiDiscrete([5, 5, 5, 4])

    def observation(self, observation: Any) -> Any:
        return np.array(list(self.unwrapped.decode(observation)))  # type: ignore[attr-defined]


class NoMasks(gym.Wrapper[Any, Any, Any, Any]):
    """Without action masks."""

    def reset(self, **how: Any) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(**how)[0], {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        return (*self.env.step(action)[:4], {})


def main(
    json: Path | None = None,
    seeds: int = 5,
    episodes: int = 30,
    worlds: tuple[str, ...] = (TAXI, f"{TAXI} without masks", *WORLDS),
    first_seed: int = 0,
) -> None:
    agent = Agent.from_pretrained()
    found: dict[str, Any] = json_module.loads(json.read_text("utf-8")) if json is not None and json.exists() else {}
    for name in worlds:
        found[name] = {}
        for way in ("numbers", "factors"):
            lives = [
                life(agent, environment(name, numbers=way == "numbers"), name, episodes, first_seed + seed)
                for seed in range(seeds)
            ]
            found[name][way] = summary(name, lives)
            print(f"{name:20s} {way:8s} " + ", ".join(f"{k} {v}" for k, v in found[name][way].items()), flush=True)
        if json is not None:
            json.write_text(json_module.dumps(found, indent=1) + "\n", encoding="utf-8")


def environment(name: str, *, numbers: bool) -> Any:
    """A world by name, with its states as numbers or as factors."""
    if not name.startswith(TAXI):
        return FactoredEnv(WORLDS[name](), numbers=numbers)
    env: Any = gym.make("Taxi-v4")
    env = env if name == TAXI else NoMasks(env)
    return env if numbers else TaxiFactors(env)


def life(agent: Agent, env: Any, name: str, episodes: int, seed: int) -> tuple[Any, Any, float]:
    """Returns while learning, returns of the final policy, and seconds."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = agent.solve(env, TAXI_EPISODES if name.startswith(TAXI) else episodes, seed=seed, evaluate=20)
    return np.array(result.returns), np.array(agent._evaluation), time.perf_counter() - started


def summary(name: str, lives: list[tuple[Any, Any, float]]) -> dict[str, Any]:
    """Means over seeds, with the standard error of what was earned."""
    returns = np.array([r for r, _, _ in lives])
    earned = returns.mean(axis=1)
    numbers = {
        "earned": round(float(earned.mean()), 2),
        "error": round(float(earned.std(ddof=1) / len(earned) ** 0.5), 2) if len(earned) > 1 else None,
        "final": round(float(np.mean([e.mean() for _, e, _ in lives])), 2),
        "seconds": round(float(np.mean([s for _, _, s in lives])), 1),
    }
    if name.startswith(TAXI):
        numbers["total"] = round(float(returns.sum(axis=1).mean()), 1)
        numbers["solved_from"] = int(np.flatnonzero(returns.mean(axis=0) < SOLVED).max(initial=-1)) + 2
    return numbers


if __name__ == "__main__":
    tyro.cli(main)
