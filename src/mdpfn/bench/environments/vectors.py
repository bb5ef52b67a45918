"""Environments with vector observations, from several packages that may not be installed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from mdpfn.bench.environments.plants import House, Stock, Tank


@dataclass(frozen=True)
class VectorEnvironment:
    """An environment by its name, the package that it needs, and how it is made."""

    name: str
    package: str
    make: Callable[[], Any]

    @property
    def is_there(self) -> bool:
        """Whether its package is installed."""
        return find_spec(self.package) is not None


class SwingUp(gymnasium.Env[Any, Any]):
    """bsuite's cart-pole swing-up as a Gymnasium environment."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (8,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._env: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; its chances follow the seed."""
        from bsuite.experiments.cartpole_swingup.cartpole_swingup import CartpoleSwingup

        super().reset(seed=seed)
        if self._env is None or seed is not None:
            self._env = CartpoleSwingup(seed=int(self.np_random.integers(2**31)))
        return self._env.reset().observation.reshape(-1), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step; leaving the track terminates an episode, the end of time truncates it."""
        after = self._env.step(int(action))
        left = abs(float(after.observation.reshape(-1)[0])) >= 1.0
        return after.observation.reshape(-1), float(after.reward), after.last() and left, after.last() and not left, {}


GYMNASIUM = {
    "gymnasium": ("CartPole-v1", "MountainCar-v0", "Acrobot-v1", "Pendulum-v1", "MountainCarContinuous-v0"),
    "Box2D": ("LunarLander-v3",),
    "mujoco": ("InvertedPendulum-v5", "InvertedDoublePendulum-v5", "Reacher-v5"),
}
VECTOR_ENVIRONMENTS = {
    found.name: found
    for found in (
        *(
            VectorEnvironment(name, package, partial(gymnasium.make, name))
            for package, names in GYMNASIUM.items()
            for name in names
        ),
        VectorEnvironment("swing-up", "bsuite", SwingUp),
        VectorEnvironment("stock", "mdpfn", Stock),
        VectorEnvironment("house", "mdpfn", House),
        VectorEnvironment("tank", "mdpfn", Tank),
    )
}
