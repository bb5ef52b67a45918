"""Quantiles of Q* reach the user: in plans, in the risk to exploit by, and only where the weights have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mdpfn import Agent, MdpfnError
from mdpfn.evidence import Statistics
from mdpfn.plan import Plan
from tests.interface import tiny_agent
from tests.planned import LEVELS, planned_model

# Of two actions the first is better in the middle, the second has less to lose and more to gain.
QUANTILES = np.array([[[-9.0, 0.0, 5.0, 6.0, 7.0], [-1.0, 0.0, 1.0, 6.0, 20.0]]])
PLAN = Plan(np.array([[1.0, 0.0]]), QUANTILES, LEVELS)
ROWS = ([0, 0, 1], [0, 1, 0], [1.0, 0.0, 0.5], [1, 0, 0])
HISTORY = Statistics.from_transitions(*ROWS, n_states=3)


def careful_actions(plan: Plan) -> list[int]:
    """The best quantile among actions that the policy hardly tells apart, state by state."""
    chosen = []
    for logits, q in zip(plan.policy_logits, plan.q_at(plan.risk), strict=True):
        plausible = [a for a in range(len(q)) if logits[a] >= logits.max() - 1]
        best = max(q[a] for a in plausible)
        chosen.append(max((a for a in plausible if q[a] == best), key=lambda a: (logits[a], -a)))
    return chosen


def agent() -> Agent:
    return Agent(planned_model())


class TestPlan:
    def test_quantiles_of_every_pair_in_rising_order(self):
        plan = agent().plan(HISTORY)
        assert plan.q_quantiles.shape == (3, 2, len(LEVELS))
        assert (np.diff(plan.q_quantiles, axis=2) > 0).all()
        assert plan.quantile_levels == LEVELS

    def test_they_are_in_units_of_reward(self):
        scaled = Statistics.from_transitions(*ROWS[:2], [8.0, 0.0, 4.0], ROWS[3], n_states=3)
        one, other = agent().plan(HISTORY), agent().plan(scaled)
        np.testing.assert_allclose(other.q_quantiles, 8 * one.q_quantiles, rtol=1e-5)

    def test_they_depend_on_what_is_told(self):
        usual = agent().plan(HISTORY).q_quantiles
        assert not np.allclose(agent().plan(HISTORY, discount=0.5).q_quantiles, usual)
        assert not np.allclose(agent().plan(HISTORY, reward_range=(-4, 4)).q_quantiles, usual)

    @pytest.mark.parametrize("i", range(len(LEVELS)))
    def test_at_the_levels_themselves(self, i):
        np.testing.assert_allclose(PLAN.q_at(LEVELS[i]), QUANTILES[..., i])

    def test_between_levels(self):
        np.testing.assert_allclose(PLAN.q_at(0.15), [[-4.5, -0.5]])
        np.testing.assert_allclose(PLAN.q_at(0.6), [[5.25, 1 + 5 / 4]])
        fine = np.stack([PLAN.q_at(level) for level in np.linspace(0.05, 0.95, 50)])
        assert (np.diff(fine, axis=0) >= 0).all()

    @pytest.mark.parametrize("level", [0.0, 0.04, 0.96, 1.0, float("nan")])
    def test_beyond_the_outermost_levels(self, level):
        with pytest.raises(MdpfnError, match=r"level.*0\.05 … 0\.95"):
            PLAN.q_at(level)

    @pytest.mark.parametrize(("risk", "best"), [(None, 0), (0.05, 1), (0.5, 0), (0.95, 1)])
    def test_risk_decides_what_is_best(self, risk, best):
        plan = Plan(PLAN.policy_logits, QUANTILES, LEVELS, risk)
        assert plan.greedy.tolist() == [best]
        np.testing.assert_allclose(plan.policy, PLAN.policy)  # the policy stays

    def test_risk_does_not_choose_what_is_clearly_worse(self):
        assert Plan(np.array([[1.5, 0.0]]), QUANTILES, LEVELS, 0.05).greedy.tolist() == [0]

    def test_exploration_is_a_policy(self):
        for planned in (agent().plan(HISTORY), tiny_agent().plan(HISTORY)):
            assert planned.exploration.shape == (3, 2)
            np.testing.assert_allclose(planned.exploration.sum(axis=1), 1)
            assert planned.exploration[1, 1] > 0.5  # never taken


class TestOptions:
    def test_every_way_in_takes_a_risk(self):
        columns = {"state": ROWS[0], "action": ROWS[1], "reward": ROWS[2], "next_state": ROWS[3]}
        for risk in (0.05, 0.3, 0.95):
            found = [
                agent().plan(HISTORY, risk=risk),
                agent().fit(columns, risk=risk, observation_space=3, action_space=2).plan(),
                agent().fit(columns, observation_space=3, action_space=2).plan(risk=risk),
            ]
            learned = agent().reset(3, 2, risk=risk, seed=0)
            for s, a, r, t in zip(*ROWS, strict=True):
                learned.observe(s, a, r, t, terminated=False)
            found.append(learned.plan())
            assert [learned.predict(s, on_unknown="best")[0] for s in range(3)] == found[-1].greedy.tolist()
            for plan in found:
                assert plan.risk == risk
                np.testing.assert_array_equal(plan.greedy, careful_actions(plan))
                np.testing.assert_allclose(plan.q_quantiles, found[0].q_quantiles)

    def test_solving_with_a_risk(self):
        env = gym.make("FrozenLake-v1")
        result = agent().solve(env, 3, seed=0, risk=0.25)
        plan = result.plan
        np.testing.assert_array_equal(plan.greedy, careful_actions(plan))

    def test_another_risk_makes_another_plan(self):
        ours = agent().reset(3, 2, seed=0)
        ours.observe(0, 0, 1.0, 1, terminated=False)
        first = ours.plan(risk=0.1)
        assert ours.plan(risk=0.1) is first
        assert (ours.plan(risk=0.9).risk, ours.plan().risk) == (0.9, None)

    def test_a_risk_is_kept_on_disk(self, tmp_path: Path):
        ours = agent().reset(3, 2, risk=0.25, seed=0)
        ours.observe(0, 0, 1.0, 1, terminated=False)
        ours.save(tmp_path / "agent")
        again = Agent.load(tmp_path / "agent").plan()
        assert again.risk == 0.25
        np.testing.assert_array_equal(again.q_quantiles, ours.plan().q_quantiles)


WAYS_IN: dict[str, Any] = {
    "reset": lambda agent, risk: agent.reset(3, 2, risk=risk),
    "solve": lambda agent, risk: agent.solve(Unopened(), 1, risk=risk),
    "fit": lambda agent, risk: agent.fit([(0, 0, 1.0, 1)], risk=risk),
    "plan of statistics": lambda agent, risk: agent.plan(HISTORY, risk=risk),
    "plan": lambda agent, risk: agent.reset(3, 2).plan(risk=risk),
}


class Unopened(gym.Env[Any, Any]):
    """Nobody gets as far as to run it."""

    observation_space = action_space = gym.spaces.Discrete(3)

    def reset(self, **options: Any) -> Any:
        raise AssertionError("the risk should have been refused before")


@pytest.mark.parametrize("way", WAYS_IN)
class TestRefusals:
    def test_weights_without_quantiles(self, way):
        with pytest.raises(MdpfnError, match=r"risk is 0\.5, but these weights have no quantiles"):
            WAYS_IN[way](tiny_agent(), 0.5)

    @pytest.mark.parametrize("risk", [0.01, 0.99])
    def test_beyond_the_outermost_levels(self, way, risk):
        with pytest.raises(MdpfnError, match=r"risk is .*0\.05 … 0\.95"):
            WAYS_IN[way](agent(), risk)

    @pytest.mark.parametrize("risk", [0, 1, -0.5, float("nan"), "low", True, [0.5]])
    def test_no_level_at_all(self, way, risk):
        with pytest.raises(MdpfnError, match=r"risk is .*level in \(0, 1\)"):
            WAYS_IN[way](agent(), risk)


@pytest.mark.parametrize("reward_range", [None, (0.0, 3.0)])
def test_no_value_is_stated_that_rewards_cannot_add_up_to(reward_range):
    """A short log that never ends: with rewards up to 2, values of tens of thousands were stated."""
    rng = np.random.default_rng(3)
    states = np.minimum(np.cumsum(rng.integers(0, 2, 46)) % 5, 4)
    rows = states[:-1], rng.integers(3, size=45), 2.0 * (states[1:] == 4), states[1:]
    plan = Agent.from_pretrained().fit(rows, reward_range=reward_range).plan()
    low, high = (-4.0, 4.0) if reward_range is None else reward_range
    assert plan.network_quantiles.min() >= low / (1 - 0.95) - 1e-9
    assert plan.network_quantiles.max() <= high / (1 - 0.95) + 1e-9
    assert plan.q_quantiles.max() <= 1.25 * high / (1 - 0.95)  # tails of the data's posterior may go a little further
