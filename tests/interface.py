"""Small agents for tests of what users touch: an untrained network plans fast, and as repeatably as a trained one."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import Any

import gymnasium as gym
import torch

from mdpfn import Agent
from mdpfn.evidence import Statistics
from mdpfn.network import planning
from mdpfn.network.config import NetworkConfig
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.numpy_network import NumpyNetwork
from mdpfn.network.tensors import to_numpy
from mdpfn.planners.output import PlannerOutput
from mdpfn.weights import Model


@cache
def tiny_model() -> Model:
    torch.manual_seed(0)
    config = NetworkConfig(width=16, n_heads=2, depth=3, dropout=0.0)
    return Model("tiny", to_numpy(PolicyNetwork(config)), {"format": 1, "network": asdict(config), "sha256": ""})


def tiny_agent(**options: Any) -> Agent:
    return Agent(tiny_model(), **options)


def planner_outputs(network: PolicyNetwork | NumpyNetwork, *inputs: Any, **options: Any) -> list[PlannerOutput]:
    """What a network says as it is used, also of one that is being trained."""
    used = to_numpy(network) if isinstance(network, PolicyNetwork) else network
    return planning.planner_outputs(used, *inputs, **options)


class Recorded(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that keeps every transition, whoever makes it."""

    def __init__(self, env: gym.Env[Any, Any], log: list[tuple[Any, ...]]) -> None:
        super().__init__(env)
        self.log, self.last = log, None

    def reset(self, **options: Any) -> Any:
        self.last, info = self.env.reset(**options)
        return self.last, info

    def step(self, action: Any) -> Any:
        following, reward, terminated, truncated, info = self.env.step(action)
        self.log.append((self.last, action, float(reward), following, terminated, truncated))
        self.last = following
        return following, reward, terminated, truncated, info


def contents(statistics: Statistics) -> tuple[Any, ...]:
    """Everything statistics hold, in a form that compares."""
    z = statistics.table()
    rows = zip(z.pair[z.transition_row].tolist(), z.successor.tolist(), z.transition_count, z.n_terminated, strict=True)
    sums = [[round(total, 9) for total in column.tolist()] for column in (z.reward_sum, z.reward_square_sum)]
    sizes = statistics.n_states, statistics.n_actions, statistics.n_transitions
    return *sizes, statistics.terminal, sorted(rows), z.pair.tolist(), sums
