"""The three lines of the README, with the weights that ship."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from mdpfn import Agent, Statistics
from mdpfn.weights import DEFAULT_WEIGHTS, shipped_models

pytestmark = pytest.mark.skipif(DEFAULT_WEIGHTS not in shipped_models(), reason="no default weights are shipped")


def test_an_environment_is_solved_in_three_lines(tmp_path: Path) -> None:
    agent = Agent.from_pretrained()
    result = agent.solve(gym.make("FrozenLake-v1"), episodes=20, seed=0)
    result.plot(tmp_path / "curve.png")
    action, _ = agent.predict(0)
    assert action == result.plan.greedy[0]
    assert "20 episodes" in str(result)


def test_a_table_of_counts_is_planned() -> None:
    """Action 1 pays and leads back, action 0 does not: nothing could be clearer."""
    counts, sums = np.zeros((2, 2, 2)), np.zeros((2, 2))
    counts[:, :, 0] = 10
    sums[:, 1] = 10.0
    plan = Agent.from_pretrained("paper").plan(Statistics.from_counts(counts, sums), depth=24)
    np.testing.assert_array_equal(plan.greedy, [1, 1])
    assert plan.policy[:, 1].min() > 0.9


def test_a_terminal_state_is_worth_nothing_afterwards() -> None:
    """A reward of 1 now and the end, or 0.5 for ever: whether the end is known decides which is better."""
    states, actions, rewards, following = [0] * 20, [0] * 10 + [1] * 10, [1.0] * 10 + [0.5] * 10, [1] * 10 + [0] * 10
    ends = [True] * 10 + [False] * 10
    agent = Agent.from_pretrained().fit((states, actions, rewards, following, ends))
    assert agent.predict(0)[0] == 1


def test_imports_are_fast_and_need_no_torch() -> None:
    code = "import sys, mdpfn; assert not {'torch', 'numpy', 'gymnasium'} & set(sys.modules); mdpfn.Discretize;"
    code += "assert 'torch' not in sys.modules; mdpfn.Statistics; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
