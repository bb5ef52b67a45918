"""Action masks: actions that do not exist are not explored, planned or recommended, by anybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mdpfn import Agent, Statistics, Transition
from mdpfn.baselines import BASELINES
from mdpfn.baselines.problem import baseline_problem
from mdpfn.cli.comparison import final_return
from mdpfn.evidence.layout import Layout
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.online.env_adapters import spaces_of
from mdpfn.online.options import Options
from mdpfn.planners.classical import ALL_PLANNERS, estimate
from mdpfn.planners.problem_info import ProblemInfo


class Corridor(gym.Env[Any, Any]):
    """Six places in a row; at the ends there is no way on, and action 2, which pays most, exists in the middle only."""

    observation_space = spaces.Discrete(6)
    action_space = spaces.Discrete(3)

    def __init__(self) -> None:
        self.place, self.taken = 0, []

    def mask(self) -> np.ndarray:
        return np.array([self.place > 0, self.place < 5, self.place == 3], dtype=np.int8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 0
        return self.place, {"action_mask": self.mask()}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.taken.append((self.place, int(action), bool(self.mask()[action])))
        reward = 1.0 if action == 2 else 0.0
        self.place += {0: -1, 1: 1, 2: 0}[int(action)]
        return self.place, reward, False, len(self.taken) % 15 == 0, {"action_mask": self.mask()}


@pytest.mark.parametrize("weights", ["mdpfn-2", "paper"])
def test_solving_takes_no_action_that_does_not_exist(weights: str) -> None:
    env = Corridor()
    agent = Agent.from_pretrained(weights)
    result = agent.solve(env, episodes=12, seed=0, evaluate=2)
    assert all(allowed for _, _, allowed in env.taken)
    if weights == "mdpfn-2":  # which finds the place where action 2 exists, and stays there
        assert {action for place, action, _ in env.taken if place == 3} == {0, 1, 2}
        assert result.evaluation.mean() >= 10
        assert "of the others' 11 state-action pairs" in str(result.coverage)


class Choosy(gym.Env[Any, Any]):
    """Of many places one is drawn; of two actions one exists there, and the episode ends."""

    action_space = spaces.Discrete(2)

    def __init__(self, observation_space: gym.Space[Any]) -> None:
        self.observation_space = observation_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.place = self.observation_space.sample()
        return self.place, {"action_mask": self.mask()}

    def mask(self) -> np.ndarray:
        odd = int(np.sum(self.place) * 1000) % 2
        return np.array([odd, 1 - odd], dtype=np.int8)

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.mask()[action]
        return self.place, 1.0, True, False, {"action_mask": self.mask()}


@pytest.mark.parametrize("space", [spaces.Discrete(500), spaces.Box(0, 1, (2,))], ids=["states", "vectors"])
def test_a_policy_is_tried_out_with_masks_in_places_that_were_never_seen(space: gym.Space[Any]) -> None:
    env = Choosy(space)
    result = Agent.from_pretrained().solve(env, episodes=30, seed=0, evaluate=30)
    assert result.evaluation.mean() == 1.0
    problem = baseline_problem("r-max", *spaces_of(env), Options(discount=0.9), seed=0) if space.shape == () else None
    if problem is not None:
        problem.run(env, 30, seed=0)
        assert final_return(problem, env, 30, seed=0) == 1.0


class Steps(gym.Env[Any, Any]):
    """Four steps from one place, or from a drawn one; the place says which of two actions exists."""

    action_space = spaces.Discrete(2)

    def __init__(self, observation_space: gym.Space[Any], *, drawn: bool) -> None:
        self.observation_space, self.drawn = observation_space, drawn

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(8)) if self.drawn else 0
        self.left = 4
        return self.seen()

    def seen(self) -> tuple[Any, dict[str, Any]]:
        odd = self.place % 2
        info = {"action_mask": np.array([1 - odd, odd], dtype=np.int8)}
        return (np.array([self.place / 8, 0.5]) if self.observation_space.shape else self.place), info

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action == self.place % 2
        self.place, self.left = (self.place + 3) % 8, self.left - 1
        observation, info = self.seen()
        return observation, 1.0, self.left == 0, False, info


@pytest.mark.parametrize("space", [spaces.Discrete(8), spaces.Box(0, 1, (2,), np.float64)], ids=["states", "vectors"])
@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("drawn", [False, True])
def test_environments_side_by_side(space: gym.Space[Any], mode: AutoresetMode, drawn: bool) -> None:
    """Each has its mask, also where another one is in the same place or an episode has just begun."""
    envs = SyncVectorEnv([lambda: Steps(space, drawn=drawn)] * 3, autoreset_mode=mode)
    assert len(Agent.from_pretrained().solve(envs, episodes=20, seed=0).returns) == 20


@pytest.mark.parametrize("name", list(BASELINES))
def test_baselines_have_the_same_advantage(name: str) -> None:
    env = Corridor()
    problem = baseline_problem(name, env.observation_space, env.action_space, Options(), seed=0)
    problem.run(env, 8, seed=0)
    assert all(allowed for _, _, allowed in env.taken)


def test_taxi_says_what_is_possible() -> None:
    env = gym.make("Taxi-v4")
    agent = Agent.from_pretrained()
    agent.solve(env, episodes=3, seed=0)
    observation, info = env.reset(seed=5)
    for _ in range(30):
        action, _ = agent.predict(observation, action_mask=info["action_mask"], on_unknown="best")
        assert info["action_mask"][action]
        observation, _, terminated, truncated, info = env.step(agent.act(observation, action_mask=info["action_mask"]))
        if terminated or truncated:
            break
    plan = agent.plan()
    forbidden = agent.statistics.table().forbidden
    assert len(forbidden) > 100
    assert (plan.policy.reshape(-1)[forbidden] == 0).all()
    np.testing.assert_allclose(plan.policy.sum(axis=1), 1)
    assert not np.isin(np.arange(500) * 6 + plan.greedy, forbidden).any()
    assert (plan.exploration.reshape(-1)[forbidden] == 0).all()


def test_vector_environments_give_masks_too() -> None:
    envs = gym.make_vec("Taxi-v4", num_envs=3)
    agent = Agent.from_pretrained()
    agent.solve(envs, episodes=3, seed=0)
    z = agent.statistics.table()
    assert len(z.forbidden) > 100
    assert not np.isin(z.pair, z.forbidden).any()


def masked() -> Statistics:
    """Action 1 pays more than anything and was taken, but does not exist."""
    statistics = Statistics(3, 3)
    for reward, action in ((0.1, 0), (5.0, 1)):
        statistics.add(Transition(0, action, reward, 1))
    statistics.add(Transition(1, 0, 0.0, 0))
    statistics.allow(0, (True, False, True))
    return statistics


def test_no_planner_chooses_it_and_it_counts_for_nothing() -> None:
    table = masked().table()
    np.testing.assert_array_equal(table.forbidden, [1])
    assert 1 not in table.pair.tolist()
    assert Layout.of(table).n_unvisited_actions.tolist() == [1, 2, 3]
    found = estimate(EmpiricalModel.of(table), ProblemInfo.of(0.9))
    for planner in ALL_PLANNERS:
        q = found.q_table(planner).reshape(3, 3)
        assert q[0, 1] == -np.inf
        assert np.isfinite(np.delete(q.reshape(-1), 1)).all()


def test_where_everything_that_exists_was_tried_nothing_is_open() -> None:
    """The optimist has nothing to hope for in a state whose only untried action does not exist."""
    statistics = Statistics(1, 2)
    statistics.add(Transition(0, 0, 0.0, 0))
    statistics.allow(0, (True, False))
    optimist = estimate(EmpiricalModel.of(statistics.table()), ProblemInfo.of(0.9, (0.0, 1.0)), (1,))
    assert optimist.value[0, 0] < 5.0  # 10 if there were an action to try


def test_masks_are_saved_merged_and_resized(tmp_path: Path) -> None:
    statistics = masked()
    statistics.save(tmp_path / "statistics")
    again = Statistics.load(tmp_path / "statistics")
    assert again.mask(0) == (True, False, True)
    assert statistics.merge(Statistics(4, 3)).mask(0) == (True, False, True)
    larger = statistics.renumbered(np.arange(statistics.n_states), np.arange(3), 5, 4)
    assert larger.mask(0) == (True, False, True, True)
    np.testing.assert_array_equal(again.table().forbidden, statistics.table().forbidden)
    agent = Agent.from_pretrained().reset(3, 3, seed=0)
    agent.observe(0, 0, 1.0, 1, terminated=False, action_mask=[0, 1, 0])
    agent.save(tmp_path / "agent")
    same = Agent.load(tmp_path / "agent")
    assert same.act(1) == agent.act(1) == 1
    assert same.predict(1)[0] == 1


def test_a_mask_for_one_prediction_is_not_remembered() -> None:
    agent = Agent.from_pretrained().reset(2, 3, seed=0)
    agent.observe(0, 2, 1.0, 0, terminated=False)
    assert agent.predict(0)[0] == 2
    assert agent.predict(0, action_mask=[1, 1, 0])[0] in (0, 1)
    assert {int(agent.predict(0, deterministic=False, action_mask=[0, 1, 0])[0]) for _ in range(20)} == {1}
    assert agent.predict(np.array([0, 0]), action_mask=[[0, 1, 0], [1, 0, 0]])[0].tolist() == [1, 0]
    assert agent.predict(0)[0] == 2
