"""What deep reinforcement learning knows after as few episodes as `mdpfn leaderboard --vectors` gives its agents.

    python -m benchmarks.deep_rl [--environments NAME …] [--seeds N] [--episodes N] [--json FILE]

DQN, PPO and SAC of Stable-Baselines3 with the settings of RL Baselines3 Zoo, schedules over its many steps included,
are stopped after 32 episodes; their deterministic policy is tried out after 1, 2, 4, … of them in the very episodes
in which the leaderboard tries its agents out, and rows have its columns. Settings are meant for 20,000 to 1,000,000
steps and are left as they are, also where so few episodes end before learning starts. `steps` are those of all
environments that an algorithm runs side by side, those of unfinished episodes among them.
"""

from __future__ import annotations

import json as json_module
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import stable_baselines3
import tyro
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from mdpfn.bench.environments.vectors import VECTOR_ENVIRONMENTS, VectorEnvironment
from mdpfn.bench.protocols.parallel import seed_of
from mdpfn.bench.protocols.vector_leaderboard import VectorProtocol, returns_of


def falling(start: float) -> Callable[[float], float]:
    """The zoo's `lin_…`: in proportion to the steps that are left."""
    return lambda left: start * left


# ruff: noqa: C408 -- names of settings without quotes, as in the zoo's files
# fmt: off
ZOO: dict[tuple[str, str], dict[str, Any]] = {  # hyperparams/{dqn,ppo,sac}.yml of github.com/DLR-RM/rl-baselines3-zoo
    ("CartPole-v1", "DQN"): dict(
        n_timesteps=50_000, learning_rate=2.3e-3, batch_size=64, buffer_size=100_000, learning_starts=1000, gamma=0.99,
        target_update_interval=10, train_freq=256, gradient_steps=128, exploration_fraction=0.16,
        exploration_final_eps=0.04, policy_kwargs=dict(net_arch=[256, 256])),
    ("CartPole-v1", "PPO"): dict(
        n_timesteps=100_000, n_envs=8, n_steps=32, batch_size=256, gae_lambda=0.8, gamma=0.98, n_epochs=20,
        ent_coef=0.0, learning_rate=falling(0.001), clip_range=falling(0.2)),
    ("MountainCar-v0", "DQN"): dict(
        n_timesteps=120_000, learning_rate=4e-3, batch_size=128, buffer_size=10_000, learning_starts=1000, gamma=0.98,
        target_update_interval=600, train_freq=16, gradient_steps=8, exploration_fraction=0.2,
        exploration_final_eps=0.07, policy_kwargs=dict(net_arch=[256, 256])),
    ("Acrobot-v1", "DQN"): dict(
        n_timesteps=100_000, learning_rate=6.3e-4, batch_size=128, buffer_size=50_000, learning_starts=0, gamma=0.99,
        target_update_interval=250, train_freq=4, gradient_steps=-1, exploration_fraction=0.12,
        exploration_final_eps=0.1, policy_kwargs=dict(net_arch=[256, 256])),
    ("Acrobot-v1", "PPO"): dict(
        n_timesteps=1_000_000, n_envs=16, normalize=True, n_steps=256, gae_lambda=0.94, gamma=0.99, n_epochs=4,
        ent_coef=0.0),
    ("InvertedPendulum-v5", "SAC"): dict(n_timesteps=1_000_000, learning_starts=10_000),  # its defaults for MuJoCo
    ("InvertedPendulum-v5", "PPO"): dict(  # the zoo's are for v2
        n_timesteps=1_000_000, n_envs=1, normalize=True, batch_size=64, n_steps=32, gamma=0.999,
        learning_rate=0.000222425, ent_coef=1.37976e-07, clip_range=0.4, n_epochs=5, gae_lambda=0.9,
        max_grad_norm=0.3, vf_coef=0.19816),
    ("Pendulum-v1", "SAC"): dict(n_timesteps=20_000, learning_rate=1e-3),
    ("MountainCarContinuous-v0", "SAC"): dict(
        n_timesteps=50_000, learning_rate=3e-4, buffer_size=50_000, batch_size=512, ent_coef=0.1, train_freq=32,
        gradient_steps=32, gamma=0.9999, tau=0.01, learning_starts=0, use_sde=True,
        policy_kwargs=dict(log_std_init=-3.67, net_arch=[64, 64])),
}
# fmt: on
ENVIRONMENTS = tuple(dict.fromkeys(name for name, _ in ZOO))


def main(
    environments: tuple[str, ...] = ENVIRONMENTS, seeds: int = 2, episodes: int = 32, json: Path | None = None
) -> None:
    """Print returns after 1, 2, 4, … episodes, and write them to a file."""
    command = "python -m benchmarks.deep_rl " + " ".join(sys.argv[1:])
    found: list[dict[str, Any]] = []
    for seed in range(seeds):
        for name, algorithm in ZOO:
            if name in environments:
                rows = live(VECTOR_ENVIRONMENTS[name], algorithm, seed, episodes)
                found += rows
                returns = "  ".join(f"{row['episodes']}: {row['return']:.0f}" for row in rows)
                print(f"{name} {algorithm} seed {seed}   {returns}   {rows[-1]['seconds']:.0f} s", flush=True)
                if json is not None:
                    json.write_text(as_json(found, command), encoding="utf-8")


def as_json(rows: list[dict[str, Any]], command: str) -> str:
    """A row per line, with the command and the version that they came from."""
    origin = json_module.dumps({"command": command, "stable-baselines3": stable_baselines3.__version__})
    return origin[:-1] + ', "rows": [\n' + ",\n".join(json_module.dumps(row) for row in rows) + "\n]}\n"


def live(environment: VectorEnvironment, algorithm: str, seed: int, episodes: int) -> list[dict[str, Any]]:
    """One row after each of 1, 2, 4, … episodes, as `mdpfn.bench.protocols.vector_leaderboard.measure` has them."""
    settings = dict(ZOO[environment.name, algorithm])
    steps, normalize = settings.pop("n_timesteps"), settings.pop("normalize", False)
    chance = seed_of("vectors", environment.name, seed) % 2**31
    worlds = make_vec_env(environment.make, settings.pop("n_envs", 1), seed=chance)
    if normalize:
        worlds = VecNormalize(worlds, gamma=settings["gamma"])
    model = getattr(stable_baselines3, algorithm)("MlpPolicy", worlds, seed=chance, device="cpu", **settings)
    watch = Watch(environment, seed, episodes)
    model.learn(steps, callback=watch)
    same = {"environment": environment.name, "agent": algorithm, "seed": seed, "package": environment.package}
    return [same | row for row in watch.rows]


class Watch(BaseCallback):
    """Tries the policy out after 1, 2, 4, … episodes, and ends training after so many."""

    def __init__(self, environment: VectorEnvironment, seed: int, episodes: int) -> None:
        super().__init__()
        self.environment, self.seed, self.episodes = environment, seed, episodes
        self.returns: list[float] = []
        self.rows: list[dict[str, Any]] = []
        self.started, self.evaluating = time.perf_counter(), 0.0

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info and len(self.returns) < self.episodes:  # several may end in the same step
                self.returns.append(float(info["episode"]["r"]))
                if len(self.returns).bit_count() == 1:
                    self.rows.append(self.row())
        return len(self.returns) < self.episodes

    def row(self) -> dict[str, Any]:
        began = time.perf_counter()
        name, seconds = self.environment.name, began - self.started - self.evaluating
        envs = [self.environment.make() for _ in range(VectorProtocol().evaluation_episodes)]
        score = float(returns_of(self.predict, envs, seed_of("evaluation", name, self.seed)).mean())
        self.evaluating += time.perf_counter() - began
        measured = {"episodes": len(self.returns), "return": score, "earned": float(np.mean(self.returns))}
        return measured | {"seconds": round(seconds, 2), "steps": self.num_timesteps}

    def predict(self, observations: Any) -> Any:
        normalized = self.model.get_vec_normalize_env()
        seen = observations if normalized is None else normalized.normalize_obs(observations)
        return self.model.predict(seen, deterministic=True)[0]


if __name__ == "__main__":
    tyro.cli(main)
