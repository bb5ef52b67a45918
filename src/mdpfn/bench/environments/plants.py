"""Control problems with vector observations: a stock, the temperatures of a house, the level of a tank."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from mdpfn.arrays import Floats


class Plant(gymnasium.Env[Any, Any]):
    """A system with a state that moves under actions and noise, for a number of steps; a reward is minus a cost."""

    horizon = 100

    def __init__(self, n_dims: int, action_space: Any) -> None:
        self.observation_space, self.action_space = spaces.Box(-np.inf, np.inf, (n_dims,), np.float64), action_space
        self.state: Floats = np.zeros(n_dims)
        self.n_steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.state, self.n_steps = self.start(), 0
        return self.state.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step; episodes are cut off, and never end by themselves."""
        cost = self.move(action)
        self.n_steps += 1
        return self.state.copy(), -cost, False, self.n_steps >= self.horizon, {}

    def start(self) -> Floats:
        """A first state."""
        raise NotImplementedError

    def move(self, action: Any) -> float:
        """Change the state; returns the cost."""
        raise NotImplementedError


class Stock(Plant):
    """Order up to one unit a day; what lies in stock costs, what is missing costs more, and demand drifts."""

    def __init__(self) -> None:
        super().__init__(2, spaces.Box(0.0, 1.0, (1,), np.float32))

    def start(self) -> Floats:
        """Some stock, or a backlog, and the usual demand."""
        return np.array([self.np_random.uniform(-1, 3), 0.5])

    def move(self, action: Any) -> float:
        """Orders arrive, and demand takes its share."""
        ordered = float(np.clip(np.asarray(action).reshape(-1)[0], 0, 1))
        stock, demand = self.state
        stock = np.clip(stock + ordered - max(0.0, demand + 0.1 * self.np_random.normal()), -5, 10)
        self.state = np.array([stock, 0.5 + 0.8 * (demand - 0.5) + 0.08 * self.np_random.normal()])
        return float(0.3 * max(stock, 0.0) + max(-stock, 0.0) + 0.2 * ordered)


class House(Plant):
    """Three rooms around one heater, which heats one of them or rests; 21 °C is wanted, the weather changes."""

    wanted = 21.0

    def __init__(self) -> None:
        super().__init__(4, spaces.Discrete(4))

    def start(self) -> Floats:
        """Temperatures of the rooms, and outside."""
        return np.append(self.np_random.uniform(14, 26, 3), self.np_random.uniform(-5, 15))

    def move(self, action: Any) -> float:
        """Heat flows between rooms and out of them."""
        rooms, outside = self.state[:3], self.state[3]
        heat = 2.5 * (np.arange(3) == int(action))
        flow = 0.1 * (np.roll(rooms, 1) + np.roll(rooms, -1) - 2 * rooms) + 0.05 * (outside - rooms)
        rooms = rooms + flow + heat + 0.05 * self.np_random.normal(size=3)
        self.state = np.append(rooms, outside + 0.2 * self.np_random.normal())
        return float(np.abs(rooms - self.wanted).mean() + 0.2 * (int(action) < 3))


class Tank(Plant):
    """Two tanks, the upper one drains into the lower; a valve fills the upper one, the lower level should be 1."""

    def __init__(self) -> None:
        super().__init__(2, spaces.Box(0.0, 1.0, (1,), np.float32))

    def start(self) -> Floats:
        """Any two levels."""
        return np.asarray(self.np_random.uniform(0, 2, 2))

    def move(self, action: Any) -> float:
        """Water flows as the root of its level."""
        valve = float(np.clip(np.asarray(action).reshape(-1)[0], 0, 1))
        upper, lower = self.state
        between, out = 0.2 * np.sqrt(max(upper, 0.0)), 0.2 * np.sqrt(max(lower, 0.0))
        noise = 0.01 * self.np_random.normal(size=2)
        self.state = np.clip(np.array([upper + 0.4 * valve - between, lower + between - out]) + noise, 0, 3)
        return float((self.state[1] - 1) ** 2 + 0.05 * valve)
