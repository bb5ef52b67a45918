"""Agents to be attacked, and everything that is known of one, bit for bit."""

from __future__ import annotations

import hashlib
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
from safetensors.numpy import load

from mdpfn import Agent

KINDS = ("table", "softmax", "names", "vectors")


@cache
def scratch() -> Path:
    """A directory in memory, where there is one: an agent is saved twice in a try."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))


def fresh(kind: str) -> Agent:
    """An agent that has lived a little, always the same."""
    path = scratch() / kind
    if not path.exists():
        lived(kind).save(path)
    return Agent.load(path)


def lived(kind: str) -> Agent:
    agent = Agent.from_pretrained("paper" if kind == "softmax" else "mdpfn-2")
    if kind == "names":
        return named(agent)
    return living(agent, gym.make("CartPole-v1" if kind == "vectors" else "FrozenLake-v1"), 40)


def living(agent: Agent, env: Any, steps: int) -> Agent:
    agent.reset(env.observation_space, env.action_space, seed=0, budget=20)
    observation, _ = env.reset(seed=0)
    for _ in range(steps):
        action = agent.act(observation)
        following, reward, terminated, truncated, _ = env.step(action)
        agent.observe(observation, action, float(reward), following, terminated=terminated, truncated=truncated)
        observation = env.reset()[0] if terminated or truncated else following
    return agent


def named(agent: Agent) -> Agent:
    agent.reset(None, ["left", "right"], seed=0, reward_range=(-1, 1), discount=0.9)
    for name, following in (("a", ("b", 1)), (("b", 1), 3), (3, "a")):
        agent.observe(name, agent.act(name, action_mask=[1, 1]), 1.0, following, terminated=False)
    return agent


def snapshot(agent: Agent) -> str:
    """A digest of everything that an agent saves of itself, but for the time."""
    path = scratch() / "snapshot"
    agent.save(path)
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    description = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["description"])
    if "context" in description:
        description["context"]["history"].pop("seconds")
    arrays = {name: (str(array.dtype), array.shape, array.tobytes()) for name, array in load(data).items()}
    return hashlib.sha256(repr((sorted(arrays.items()), description)).encode()).hexdigest()
