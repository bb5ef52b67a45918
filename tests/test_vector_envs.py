"""Vector environments in every autoreset mode give the same statistics as single ones from the same transitions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from mdpfn import Statistics, Transition
from mdpfn.online.history import OpenEpisode
from tests.interface import Recorded, contents, tiny_agent

MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]


class Walk(gym.Env[Any, Any]):
    """Up and down a ladder in Dict observations and Tuple actions; ends at the top, is broken off after 6 steps."""

    observation_space = spaces.Dict({"rung": spaces.Discrete(4), "left": spaces.MultiBinary(1)})
    action_space = spaces.Tuple([spaces.Discrete(2, start=-1), spaces.MultiDiscrete([2])])

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.rung, self.steps = int(self.np_random.integers(2)), 0
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        self.rung = max(0, min(3, self.rung + (1 if action[0] == 0 else -1)))
        self.steps += 1
        return self.seen(), float(action[1][0]), self.rung == 3, self.steps == 6, {}

    def seen(self) -> Any:
        return {"rung": np.int64(self.rung), "left": np.array([self.steps % 2], dtype=np.int8)}


def replayed(log: list[tuple[Any, ...]], env: gym.Env[Any, Any]) -> Statistics:
    """The statistics of these transitions, observed one by one."""
    agent = tiny_agent().reset(env.observation_space, env.action_space)
    for observation, action, reward, following, terminated, truncated in log:
        agent.observe(observation, action, reward, following, terminated=bool(terminated), truncated=bool(truncated))
    return agent.statistics


def made(name: str) -> gym.Env[Any, Any]:
    if name == "walk":
        return Walk()
    return gym.wrappers.TimeLimit(gym.make(name), 12)  # some episodes terminate, others are truncated


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Blackjack-v1", "walk"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n_envs", [1, 3])
def test_statistics_are_those_of_the_transitions_that_happened(name: str, mode: AutoresetMode, n_envs: int) -> None:
    log: list[tuple[Any, ...]] = []
    envs = SyncVectorEnv([lambda: Recorded(made(name), log)] * n_envs, autoreset_mode=mode)
    agent = tiny_agent()
    result = agent.solve(envs, episodes=15, seed=0)
    unseen = len(log) - agent.statistics.n_transitions  # of the step in which the last episode ended
    assert 0 <= unseen < n_envs
    assert contents(agent.statistics) == contents(replayed(log[: len(log) - unseen], made(name)))
    assert len(result.returns) == 15


@pytest.mark.parametrize("mode", MODES)
def test_one_environment_in_a_vector_is_one_environment(mode: AutoresetMode) -> None:
    single, vector = tiny_agent(), tiny_agent()
    alone = single.solve(made("FrozenLake-v1"), episodes=12, seed=3)
    inside = vector.solve(SyncVectorEnv([lambda: made("FrozenLake-v1")], autoreset_mode=mode), episodes=12, seed=3)
    np.testing.assert_array_equal(alone.returns, inside.returns)
    np.testing.assert_array_equal(alone.lengths, inside.lengths)
    assert contents(single.statistics) == contents(vector.statistics)
    assert alone.coverage.start_states == inside.coverage.start_states


def test_returns_are_those_that_gymnasium_counts() -> None:
    log: list[tuple[Any, ...]] = []
    envs = SyncVectorEnv([lambda: Recorded(made("walk"), log)], autoreset_mode=AutoresetMode.SAME_STEP)
    result = tiny_agent().solve(envs, episodes=10, seed=0)
    ends = [i + 1 for i, row in enumerate(log) if row[4] or row[5]]
    expected = [sum(row[2] for row in log[start:end]) for start, end in zip([0, *ends], ends, strict=False)]
    np.testing.assert_allclose(result.returns, expected)


def asynchronous() -> VectorEnv[Any, Any, Any]:
    return AsyncVectorEnv([partial(gym.make, "FrozenLake-v1")] * 2)


def registered() -> VectorEnv[Any, Any, Any]:
    return gym.make_vec("FrozenLake-v1", num_envs=2, vectorization_mode="sync")


@pytest.mark.parametrize("make", [asynchronous, registered])
def test_other_vector_environments_run(make: Callable[[], VectorEnv[Any, Any, Any]]) -> None:
    envs = make()
    try:
        assert len(tiny_agent().solve(envs, episodes=5, seed=0).returns) == 5
    finally:
        envs.close()


def test_episodes_of_different_environments_do_not_mix() -> None:
    agent = tiny_agent().reset(3, 1)
    problem = agent.problem
    for environment, reward in ((0, 1.0), (1, 10.0), (0, 1.0), (1, 10.0)):
        problem.record(Transition(0, 0, reward, 1, False, False), environment)
    problem.record(Transition(1, 0, 1.0, 2, True, False), 0)
    assert problem.history.returns == [3.0]
    assert problem.history.under_way == {1: OpenEpisode(20.0, 10.0 + 0.95 * 10.0, 2)}
    assert problem.history.discounted_returns == [pytest.approx(1.0 + 0.95 + 0.95**2)]
    assert problem.history.start_states == {0: 2}
