"""Deep reinforcement learning beside the agent: as many episodes, tried out in the same ones."""

from __future__ import annotations

import gymnasium as gym
import pytest

from mdpfn.bench.environments.vectors import VECTOR_ENVIRONMENTS
from mdpfn.bench.protocols.parallel import seed_of

SB3 = pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")

from benchmarks.deep_rl import ZOO, live  # noqa: E402

CARTPOLE = VECTOR_ENVIRONMENTS["CartPole-v1"]


def test_the_policy_is_tried_out_in_the_episodes_of_the_leaderboard() -> None:
    rows = live(CARTPOLE, "DQN", 1, episodes=2)
    assert [row["episodes"] for row in rows] == [1, 2]
    assert rows[0]["earned"] <= 2 * rows[1]["earned"] == rows[1]["steps"]  # every step earns 1
    net, env = ZOO["CartPole-v1", "DQN"]["policy_kwargs"], gym.make("CartPole-v1")
    untrained = SB3.DQN("MlpPolicy", env, seed=seed_of("vectors", "CartPole-v1", 1) % 2**31, policy_kwargs=net)
    total = 0.0
    for i in range(10):
        (observation, _), ended = env.reset(seed=(seed_of("evaluation", "CartPole-v1", 1) + i) % 2**31), False
        while not ended:
            action, _ = untrained.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(int(action))
            total, ended = total + float(reward), terminated or truncated
    assert rows[0]["return"] == total / 10  # learning has not started after one episode


def test_environments_side_by_side_share_the_episodes() -> None:
    rows = live(CARTPOLE, "PPO", 0, episodes=4)
    assert [row["episodes"] for row in rows] == [1, 2, 4]
    assert all(row["steps"] % ZOO["CartPole-v1", "PPO"]["n_envs"] == 0 for row in rows)
    assert rows[2]["steps"] > 4 * rows[2]["earned"]  # those of episodes that were still going on
