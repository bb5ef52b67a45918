"""The three lines of the README, with the weights that ship."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from mdpfn import Agent, Statistics
from mdpfn.bench.environments import ENVIRONMENTS
from mdpfn.model.exact import Scorer
from mdpfn.model.mdp import MDPBatch
from mdpfn.training.visits import explore
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


@pytest.mark.parametrize("name", ["gym-frozen-lake-4x4-slippery", "inventory-12", "river-swim-6"])
def test_with_much_data_careful_plans_are_good_ones(name: str) -> None:
    """A thousand visits of every pair leave little to be careful about, and quantiles close in."""
    mdp = ENVIRONMENTS[name].build()
    score, widths = Scorer(mdp), []
    for visits in (10.0, 1000.0):
        z = explore(np.random.default_rng(0), MDPBatch.of([mdp]), np.array([visits]))
        statistics = Statistics.from_table(z, [], float(mdp.outcome_reward.min()), float(mdp.outcome_reward.max()))
        plan = Agent.from_pretrained().plan(statistics, discount=mdp.discount)
        assert plan.q_quantiles is not None
        widths.append(float((plan.q_quantiles[..., -1] - plan.q_quantiles[..., 0]).mean()))
    assert widths[1] < 0.6 * widths[0]
    for risk in (None, 0.05, 0.5, 0.95):
        careful = Agent.from_pretrained().plan(statistics, discount=mdp.discount, risk=risk)
        assert score(careful.greedy) > 0.95


def test_the_end_of_a_long_corridor_is_found() -> None:
    n = 120
    state = np.arange(n)
    rewards = np.concatenate([np.zeros(n), state == n - 1])
    following = np.concatenate([np.maximum(state - 1, 0), np.minimum(state + 1, n - 1)])
    transitions = (np.tile(state, 2), np.repeat([0, 1], n), rewards, following)
    walked = Statistics.from_transitions(*(np.tile(column, 10) for column in transitions))
    assert (Agent.from_pretrained().plan(walked, discount=0.98).greedy == 1).all()
