"""What is earned in the first 100 episodes of environments that everybody knows, beside baselines, and in bandits.

    python -m benchmarks.earned [--json FILE] [--seeds N]

Undiscounted returns of all episodes, summed up; everybody is given the same episodes, and action masks where the
environment has them. Bandits: 5 Bernoulli arms with uniform means, 200 pulls; the regret beside Thompson sampling's.
"""

from __future__ import annotations

import json as json_module
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import tyro

from mdpfn import Agent
from mdpfn.baselines.problem import baseline_problem
from mdpfn.online.env_adapters import spaces_of
from mdpfn.online.options import Options

EPISODES, DISCOUNTS, BASELINES = 100, (0.95, 0.99), ("r-max", "ucbvi", "q-learning")
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "Taxi": {"id": "Taxi-v4"},
    "CliffWalking": {"id": "CliffWalking-v1", "max_episode_steps": 200},
    "FrozenLake 8×8": {"id": "FrozenLake-v1", "map_name": "8x8", "is_slippery": False},
    "FrozenLake 8×8, slippery": {"id": "FrozenLake-v1", "map_name": "8x8"},
}
ARMS, PULLS, BANDITS = 5, 200, 100


class Bandit(gym.Env[Any, Any]):
    """Bernoulli arms; an episode is one pull."""

    def __init__(self, means: np.ndarray) -> None:
        self.means = means
        self.observation_space, self.action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(len(means))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 1, float(self.np_random.random() < self.means[action]), True, False, {}


def main(json: Path | None = None, seeds: int = 5) -> None:
    agent = Agent.from_pretrained()
    found: dict[str, Any] = {}
    for name, how in ENVIRONMENTS.items():
        for discount in DISCOUNTS:
            cell = {agent.model.name: total(agent, how, discount, seeds)}
            cell |= {baseline: total(baseline, how, discount, seeds) for baseline in BASELINES}
            found[f"{name}, discount {discount}"] = cell
            print(f"{name}, discount {discount}: " + ", ".join(f"{k} {v:.1f}" for k, v in cell.items()), flush=True)
    found["bandit regret"] = bandit_regret(agent)
    print("bandit regret: " + ", ".join(f"{k} {v:.2f}" for k, v in found["bandit regret"].items()))
    if json is not None:
        json.write_text(json_module.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def total(who: Agent | str, how: dict[str, Any], discount: float, seeds: int) -> float:
    """The sum of all returns, averaged over seeds."""
    totals = []
    for seed in range(seeds):
        env = gym.make(**how)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(who, Agent):
                totals.append(who.solve(env, EPISODES, seed=seed, discount=discount).returns.sum())
            else:
                problem = baseline_problem(who, *spaces_of(env), Options(discount=discount), seed=seed)
                problem.run(env, EPISODES, seed=seed)
                totals.append(sum(problem.history.returns))
    return float(np.mean(totals))


def bandit_regret(agent: Agent) -> dict[str, float]:
    """What was lost against the best arm, on average over bandits."""
    regrets = {agent.model.name: 0.0, "Thompson sampling": 0.0}
    for number in range(BANDITS):
        rng = np.random.default_rng([7, number])
        means = rng.random(ARMS)
        lost = means.max() - means
        agent.solve(Bandit(means), PULLS, seed=number)
        pulls = agent.statistics.table().visits_table()[0]
        regrets[agent.model.name] += float(pulls @ lost) / BANDITS
        won, lost_pulls = np.ones((2, ARMS))
        for _ in range(PULLS):
            arm = int(rng.beta(won, lost_pulls).argmax())
            reward = rng.random() < means[arm]
            won[arm] += reward
            lost_pulls[arm] += not reward
            regrets["Thompson sampling"] += float(lost[arm]) / BANDITS
    return regrets


if __name__ == "__main__":
    tyro.cli(main)
