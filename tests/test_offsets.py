"""An offset of all rewards changes no policy where no episode ends, and not the agent's; ties stay where they are."""

from __future__ import annotations

from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mdpfn import Agent, Statistics
from mdpfn.bench.environments import ENVIRONMENTS, TabularEnv
from mdpfn.model.exact import Scorer

OFFSETS = (-1_000_000.0, 1_000.0)


@cache
def agent(weights: str) -> Agent:
    return Agent.from_pretrained(weights)


def logged(seed: int, offset: float = 0.0, **more: Any) -> Statistics:
    rng = np.random.default_rng(seed)
    states, actions, following = rng.integers(6, size=90), rng.integers(3, size=90), rng.integers(6, size=90)
    rewards = rng.integers(2, size=(6, 3))[states, actions] + offset
    return Statistics.from_transitions(states, actions, rewards, following, **more)


@pytest.mark.parametrize("weights", ["mdpfn-2", "paper"])
@pytest.mark.parametrize("offset", OFFSETS)
def test_plans_do_not_change_with_an_offset(weights: str, offset: float) -> None:
    for seed in range(8):
        plain, moved = agent(weights).plan(logged(seed)), agent(weights).plan(logged(seed, offset))
        np.testing.assert_allclose(moved.policy_logits, plain.policy_logits, atol=1e-3)
        assert (moved.greedy == plain.greedy).mean() >= 5 / 6
    if plain.q_quantiles is not None and moved.q_quantiles is not None:
        values = moved.q_quantiles - offset / (1 - 0.95)
        np.testing.assert_allclose(values, plain.q_quantiles, atol=1e-3 * np.abs(plain.q_quantiles).max())


def test_an_offset_counts_where_episodes_end() -> None:
    ends = np.arange(90) % 9 == 8
    plain, moved = (agent("mdpfn-2").plan(logged(0, offset, terminated=ends)) for offset in (0.0, -1_000_000.0))
    assert not np.allclose(plain.policy_logits, moved.policy_logits, atol=0.1)


class Paid(gym.Wrapper):
    """The same environment with an offset of its rewards."""

    def __init__(self, env: gym.Env, offset: float) -> None:
        super().__init__(env)
        self.offset = offset

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, float(reward) + self.offset, terminated, truncated, info


@pytest.mark.parametrize("name", ["machine-replacement-6", "forest-3", "garnet-10-3-2"])
def test_solving_does_not_change_with_an_offset(name: str) -> None:
    """At most 2 points of 100 are lost to an offset of a million."""
    mdp, scores = ENVIRONMENTS[name].build(), []
    for offset in (0.0, -1_000_000.0):
        solved = Agent.from_pretrained()
        solved.solve(Paid(TabularEnv(mdp), offset), episodes=15, seed=0, max_episode_steps=40)
        scores.append(Scorer(mdp)(solved.plan().greedy))
    assert scores[0] > 0.9
    assert scores[1] >= scores[0] - 0.02


@pytest.mark.parametrize("weights", ["mdpfn-2", "paper"])
def test_greedy_actions_go_with_their_states(weights: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        order = rng.permutation(6)
        states, actions, following = rng.integers(6, size=30), rng.integers(2, size=30), rng.integers(6, size=30)
        rewards = (states < 3).astype(float)  # whatever is done: every action is as good as another
        plan = agent(weights).plan(Statistics.from_transitions(states, actions, rewards, following, n_states=6))
        moved = agent(weights).plan(
            Statistics.from_transitions(order[states], actions, rewards, order[following], n_states=6)
        )
        known = np.ones(6, dtype=bool) if plan.unknown is None else ~plan.unknown
        np.testing.assert_array_equal(moved.greedy[order][known], plan.greedy[known])
