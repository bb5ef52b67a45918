"""Gymnasium's toy-text environments, read from their tables."""

from functools import partial
from typing import Any

import gymnasium

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.gymnasium_adapter import from_gymnasium_table
from mdpfn.model.mdp import TabularMDP


def toy_text(name: str, *, discount: float = 0.99, **options: Any) -> TabularMDP:
    """The MDP of the Gymnasium environment `name` made with `options`."""
    env = gymnasium.make(name, **options)
    mdp = from_gymnasium_table(env, discount=discount)
    env.close()
    return mdp


def _environment(name: str, family: str, gymnasium_id: str, horizon: int, **options: Any) -> Environment:
    version = gymnasium.__version__
    source = f"Gymnasium {version}, {gymnasium_id}; Towers et al. (2024), Gymnasium: a standard interface for RL"
    return Environment(name, family, source, horizon, partial(toy_text, gymnasium_id, **options))


ENVIRONMENTS = [
    *(
        _environment(
            f"gym-frozen-lake-{size}{'-slippery' if is_slippery else ''}", "toy-text frozen lake", "FrozenLake-v1",
            horizon, map_name=size, is_slippery=is_slippery,
        )
        for size, horizon in (("4x4", 100), ("8x8", 200))
        for is_slippery in (False, True)
    ),
    _environment("cliff-walking", "cliff walking", "CliffWalking-v1", 200),
    _environment("cliff-walking-slippery", "cliff walking", "CliffWalking-v1", 200, is_slippery=True),
    _environment("taxi", "taxi", "Taxi-v4", 200),
]  # fmt: skip
