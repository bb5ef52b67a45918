"""Continuous environments in bins."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from mdpfn import Discretize
from tests.interface import tiny_agent


class Box1(gym.Env[Any, Any]):
    """Shows what it is told to show; its action is one number."""

    def __init__(self, shown: float = 0.0, low: float = 0.0, high: float = 4.0) -> None:
        self.shown = shown
        self.observation_space = spaces.Box(low, high, (1,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (2, 1), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.array([self.shown]), {}

    def step(self, action: Any) -> Any:
        self.action = action
        return np.array([self.shown]), 0.0, False, False, {}


@pytest.mark.parametrize(
    "name", ["CartPole-v1", "MountainCar-v0", "Acrobot-v1", "Pendulum-v1", "MountainCarContinuous-v0"]
)
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_classic_control_becomes_finite(name: str, strategy: str) -> None:
    env = Discretize(gym.make(name), bins=3, strategy=strategy, samples=200)
    assert isinstance(env.observation_space, spaces.MultiDiscrete)
    assert set(env.observation_space.nvec.tolist()) <= {1, 2, 3}
    result = tiny_agent().solve(env, episodes=2, seed=0, max_episode_steps=30)
    assert len(result.returns) == 2
    assert len(result.policy) == env.observation_space.nvec.prod()


def test_observations_are_of_the_space() -> None:
    env = Discretize(gym.make("CartPole-v1"), bins=[3, 3, 6, 6])
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert env.observation_space.contains(env.step(0)[0])


def test_uniform_bins_are_equally_wide() -> None:
    env = Discretize(Box1(), bins=4)
    bins = [int(env.observation([x])[0]) for x in (-9.0, 0.0, 0.99, 1.0, 2.5, 3.0, 4.0, 99.0)]
    assert bins == [0, 0, 0, 1, 2, 3, 3, 3]


def test_quantile_bins_hold_equally_many_samples() -> None:
    samples = np.random.default_rng(0).exponential(size=(1000, 1))
    env = Discretize(Box1(), bins=5, strategy="quantile", samples=samples)
    counts = np.bincount([int(env.observation(x)[0]) for x in samples])
    np.testing.assert_array_equal(counts, [200] * 5)


def test_infinite_bounds_are_taken_from_the_samples() -> None:
    samples = np.array([[2.0], [6.0]])
    env = Discretize(Box1(low=-np.inf, high=np.inf), bins=4, samples=samples)
    assert [int(env.observation([x])[0]) for x in (2.5, 3.5, 4.5, 5.5)] == [0, 1, 2, 3]


def test_equal_samples_need_one_bin_only() -> None:
    env = Discretize(Box1(shown=1.0, low=-np.inf, high=np.inf), bins=4, strategy="quantile", samples=20)
    assert env.observation_space.nvec.tolist() == [2]


def test_actions_are_points_of_a_grid() -> None:
    env = Discretize(Box1(), action_bins=3)
    assert env.action_space == spaces.MultiDiscrete([3, 3])
    env.reset(seed=0)
    env.step(np.array([0, 2]))
    np.testing.assert_array_equal(env.unwrapped.action, [[-1.0], [1.0]])  # type: ignore[attr-defined]
    assert env.unwrapped.action.dtype == np.float32  # type: ignore[attr-defined]


def test_bins_are_repeatable_also_in_vectors() -> None:
    make = partial(Discretize, gym.make("CartPole-v1"), bins=4, strategy="quantile", samples=300)
    first, second = make(seed=7), Discretize(gym.make("CartPole-v1"), 4, strategy="quantile", samples=300, seed=7)
    for x in np.random.default_rng(0).normal(size=(50, 4)):
        np.testing.assert_array_equal(first.observation(x), second.observation(x))
    envs = SyncVectorEnv([lambda: Discretize(gym.make("CartPole-v1"), 4, samples=300)] * 2)
    assert len(tiny_agent().solve(envs, episodes=4, seed=0).returns) == 4


def test_nan_fits_no_bin() -> None:
    env = Discretize(Box1(shown=1.0))
    with pytest.raises(ValueError, match="NaN"):
        env.observation([np.nan])


def test_numbers_may_be_of_numpy() -> None:
    env = Discretize(gym.make("CartPole-v1"), bins=np.int64(3), samples=np.int64(50))
    assert env.observation_space == Discretize(gym.make("CartPole-v1"), bins=3, samples=50).observation_space
