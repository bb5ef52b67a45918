"""Directed exploration: it finds what is far away, looks again only when there is news, and ends when all is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from mdpfn import Agent
from mdpfn.bench.environments import Simulator
from mdpfn.errors import MdpfnError
from mdpfn.evidence import PairTable, Statistics, Transition
from mdpfn.exploration.clock import Clock
from mdpfn.exploration.directed import DirectedConfig, DirectedExplorer
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.model.mdp import TabularMDP
from mdpfn.network.planning import planner_outputs
from mdpfn.online.in_context import InContextLearner
from mdpfn.planners.classical import OPTIMISTIC, PURE_EXPLORATION, estimate
from mdpfn.planners.output import PlannerOutput
from mdpfn.planners.problem_info import ProblemInfo
from mdpfn.weights import save_model
from tests.planned import planned_model

CODE = np.random.default_rng(5).integers(3, size=40)


def lock(n_digits: int = 12, *, crumbs: float = 0.0) -> TabularMDP:
    """The right one of three actions leads on, any other back to the start for `crumbs`; the last state pays 1."""
    n = n_digits + 1
    transition, reward = np.zeros((n, 3, n)), np.zeros((n, 3))
    for state in range(n_digits):
        transition[state, :, 0] = 1.0
        reward[state] = crumbs
        transition[state, CODE[state]] = np.eye(n)[state + 1]
        reward[state, CODE[state]] = float(state == n_digits - 1)
    transition[n_digits, :, n_digits] = 1.0
    return TabularMDP.from_dense(transition, reward, terminal=[n_digits], discount=0.97)


def planner(table: PairTable, info: ProblemInfo) -> PlannerOutput:
    (output,) = planner_outputs(planned_model().network, table, info)
    return output


def directed(evidence: Statistics, discount: float = 0.9, **options: Any) -> InContextLearner:
    info, rng = ProblemInfo.of(discount), np.random.default_rng([0, 1])
    return InContextLearner(evidence, info, rng, planner=planner, **{"exploration": "directed", **options})


def learner(mdp: TabularMDP, exploration: str) -> InContextLearner:
    return directed(Statistics(mdp.n_states, mdp.n_actions), mdp.discount, exploration=exploration)


def episodes_to_goal(agent: InContextLearner, mdp: TabularMDP, n_episodes: int, horizon: int = 60) -> int | None:
    """The episode in which the last state was first reached."""
    simulator = Simulator(mdp, np.random.default_rng(0))
    for episode in range(n_episodes):
        state, terminated, step = simulator.reset(), False, 0
        while not terminated and step < horizon:
            action, step = agent.act(state), step + 1
            reward, following, terminated = simulator.step(action)
            agent.observe(Transition(state, action, reward, following, terminated, step == horizon and not terminated))
            state = following
        if terminated:
            return episode
    return None


class TestFinding:
    @pytest.mark.parametrize("crumbs", [0.0, 0.01, -0.01])
    def test_a_lock_is_opened_where_chance_would_not(self, crumbs):
        """Twelve digits, each to be found by trying: chance needs 3¹² tries."""
        mdp = lock(crumbs=crumbs)
        assert episodes_to_goal(learner(mdp, "directed"), mdp, 12) is not None
        assert episodes_to_goal(learner(mdp, "softmax"), mdp, 12) is None

    def test_what_was_found_is_kept_to(self):
        mdp = lock(6)
        agent = learner(mdp, "directed")
        assert episodes_to_goal(agent, mdp, 12) is not None
        np.testing.assert_array_equal(agent.plan()[:6].argmax(axis=1), CODE[:6])


def known_fully(n_visits: int = 4000) -> Statistics:
    """Two states in a ring, every action of both taken often; only one of them pays."""
    counts = np.zeros((2, 2, 2))
    counts[0, 0, 0] = counts[0, 1, 1] = counts[1, 0, 0] = counts[1, 1, 1] = n_visits
    return Statistics.from_counts(counts, np.array([[0, 0], [0, 1.0 * n_visits]]))


class TestChoosing:
    def test_every_second_episode_is_curious(self):
        """Action 0 of the only state pays as much as anything was ever seen to; action 1 was never taken."""
        statistics = Statistics.from_transitions(
            [0, 0, 1], [0, 1, 0], [1.0, 0.0, 0.0], [0, 1, 0], n_states=2, n_actions=2
        )
        info, table = ProblemInfo.of(0.9), statistics.table()
        policies = [DirectedExplorer().policy(0, table, info, Clock(episode)) for episode in range(4)]
        for policy, kind in zip(policies, (OPTIMISTIC, PURE_EXPLORATION, OPTIMISTIC, PURE_EXPLORATION), strict=True):
            q = estimate(EmpiricalModel.of(table), info, (kind,)).q_table(kind).reshape(2, 2)
            best = q >= q.max(axis=1, keepdims=True) - 1e-3
            np.testing.assert_allclose(policy, best / best.sum(axis=1, keepdims=True))
        assert policies[0][0].tolist() == [1, 0]
        assert policies[1][0].tolist() == [0, 1]

    def test_curiosity_ends_when_all_is_known(self):
        statistics, info = known_fully(), ProblemInfo.of(0.9)
        for episode in range(2):
            policy = DirectedExplorer().policy(0, statistics.table(), info, Clock(episode))
            np.testing.assert_array_equal(policy, [[0, 1], [0, 1]])

    def test_curiosity_ends_where_nothing_unseen_is_within_reach(self):
        """State 2 is unknown, but no way leads there; from where it has been, it would be curious."""
        counts = np.zeros((3, 2, 3))
        counts[:2, :, :2] = known_fully().dense_counts()[0]
        counts[2, 0, 2] = 1
        sums = np.zeros((3, 2))
        sums[1, 1] = 4000
        known = Statistics.from_counts(counts, sums).table(), ProblemInfo.of(0.9), Clock(episode=1)
        assert DirectedExplorer().policy(0, *known)[0].tolist() == [0, 1]
        assert DirectedExplorer().policy(2, *known)[2].tolist() == [0, 1]

    def test_choosing_changes_nothing(self):
        statistics, clock = known_fully(), Clock(3, 5, 7, True)
        explorer = DirectedExplorer()
        first, again = (explorer.policy(0, statistics.table(), ProblemInfo.of(0.9), clock) for _ in range(2))
        np.testing.assert_array_equal(first, again)
        assert clock == Clock(3, 5, 7, True)

    def test_the_table_to_explore_by_is_a_policy_that_leads_to_the_unseen(self):
        statistics = Statistics.from_transitions(
            [0, 0, 1], [0, 1, 0], [1.0, 0.0, 0.0], [0, 1, 0], n_states=4, n_actions=2
        )
        table = DirectedExplorer().held_policy(statistics.table(), ProblemInfo.of(0.9))
        assert table.shape == (4, 2)
        np.testing.assert_allclose(table.sum(axis=1), 1)
        assert table.min() > 0
        assert table[0, 1] > 0.9  # to state 1 …
        assert table[1, 1] > 0.9  # … where action 1 was never taken
        np.testing.assert_allclose(table[2:], 0.5)


class TestNews:
    def count_plans(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        plans = []
        policy = DirectedExplorer.policy

        def counted(self: DirectedExplorer, state: int, *known: Any) -> Any:
            plans.append(state)
            return policy(self, state, *known)

        monkeypatch.setattr(DirectedExplorer, "policy", counted)
        return plans

    def test_it_plans_again_only_on_news(self, monkeypatch):
        """A ring of one state and one action: the 1st, 2nd, 4th, 8th … visit are news, the others are not."""
        plans = self.count_plans(monkeypatch)
        agent = directed(Statistics(1, 1))
        for step in range(1, 100):
            agent.act(0)
            agent.observe(Transition(0, 0, 1.0, 0))
            assert (agent.acting_policy is None) == (step in {1, 2, 4, 8, 16, 32, 64})
        assert len(plans) == 8  # before the first step and after every news but none yet

    @pytest.mark.parametrize(
        ("transition", "is_news"),
        [
            (Transition(0, 0, 1.0, 0), False),
            (Transition(0, 0, 1.0, 1), True),  # a new successor
            (Transition(0, 1, 1.0, 0), True),  # a new pair
            (Transition(0, 0, -5.0, 0), True),  # a new scale
            (Transition(0, 0, 1.0, 0, truncated=True), True),  # an episode over
            (Transition(0, 0, 1.0, 0, terminated=True), True),
        ],
    )
    def test_what_is_news(self, transition, is_news):
        agent = directed(Statistics.from_transitions([0] * 5, [0] * 5, [1.0] * 5, [0] * 5, n_states=2, n_actions=2))
        agent.act(0)
        novelty = agent.observe(transition)
        assert (agent.acting_policy is None) is is_news
        assert novelty.replan_trigger is (is_news and not transition.ends_episode)
        assert agent.clock.episode == int(transition.ends_episode)

    def test_many_states_make_a_plan_serve_for_more_steps(self):
        n = 200
        agent = directed(Statistics.from_transitions(range(n), [0] * n, [0.0] * n, [0] * n, n_actions=1))
        agent.act(0)
        news = []
        for step in range(12):
            agent.observe(Transition(step, 0, 0.0, step + 1))  # a new successor each time
            news.append(agent.acting_policy is None)
        assert news == [step + 1 >= n / DirectedConfig().states_per_step for step in range(12)]

    def test_news_wait_until_the_last_plan_has_served(self):
        """Nothing is new any more when the time to plan has come, but something was."""
        explorer, clock = DirectedExplorer(DirectedConfig(states_per_step=10)), Clock()
        clock.advance(ends_episode=False, replan_trigger=True)
        assert not explorer.plans_again(clock, n_visited=60, n_actions=2)
        for _ in range(2):
            clock.advance(ends_episode=False, replan_trigger=False)
        assert explorer.plans_again(clock, n_visited=60, n_actions=2)
        clock.planned()
        for _ in range(10):
            clock.advance(ends_episode=False, replan_trigger=False)
        assert not explorer.plans_again(clock, n_visited=60, n_actions=2)

    def test_steps_force_a_plan_where_they_are_asked_for(self, monkeypatch):
        plans = self.count_plans(monkeypatch)
        agent = directed(Statistics(1, 1), replan_every=1)
        for _ in range(10):
            agent.act(0)
            agent.observe(Transition(0, 0, 1.0, 0))
        assert len(plans) == 10


class Corridor(gym.Env[Any, Any]):
    """Named places in a row, seen only by name; one of two ways leads on, the other back. The far end pays."""

    observation_space = spaces.Text(20)
    action_space = spaces.Discrete(2)

    def __init__(self, length: int = 10) -> None:
        self.length, self.place = length, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 0
        return self.name, {}

    @property
    def name(self) -> str:
        return f"place {self.place}"

    def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.place = self.place + 1 if action == CODE[self.place] % 2 else 0
        done = self.place == self.length
        return self.name, float(done), done, False, {}


class TestThroughTheAgent:
    def test_states_that_appear_one_by_one(self):
        agent = Agent(planned_model())
        assert agent.exploration == "directed"
        result = agent.solve(Corridor(), episodes=6, seed=0, max_episode_steps=80)
        assert agent.statistics.n_states == 11
        assert result.returns.max() == 1
        best = dict(zip(result.plan.states, result.plan.greedy.tolist(), strict=True))
        assert [best[f"place {i}"] for i in range(10)] == (CODE[:10] % 2).tolist()

    def test_hashable_observations(self):
        """Tuples, never announced, through reset, act and observe."""
        agent = Agent(planned_model()).reset(None, 2, seed=0)
        env, reached = Corridor(8), 0
        for _ in range(6):
            here, done, steps = ("at", env.reset()[0]), False, 0
            while not done and steps < 80:
                action, steps = agent.act(here), steps + 1
                name, reward, done, _, _ = env.step(action)
                agent.observe(here, action, reward, ("at", name), terminated=done, truncated=steps == 80 and not done)
                here = ("at", name)
            reached += done
        assert reached >= 2
        assert len(agent.plan().states) == 9

    @pytest.mark.parametrize("steps", [0, 1, 7, 40, 90])
    def test_a_saved_agent_goes_on_mid_episode(self, steps, tmp_path: Path):
        save_model(tmp_path / "model.safetensors", planned_model().network, {})
        agent = Agent.from_pretrained(tmp_path / "model.safetensors").reset(None, 2, seed=3)
        env = Corridor(9)
        where = self.walk(agent, env, env.reset()[0], steps)[1]
        agent.save(tmp_path / "agent")
        again = Agent.load(tmp_path / "agent")
        assert again.exploration == "directed"
        twin = Corridor(9)
        twin.place = env.place
        for _ in range(2):
            ours, here = self.walk(agent, env, where, 60)
            theirs, there = self.walk(again, twin, where, 60)
            assert (ours, here) == (theirs, there)
            where = here
        assert agent.problem.learner.clock == again.problem.learner.clock
        assert agent.problem.learner.clock.episode > 0

    def walk(self, agent: Agent, env: Corridor, where: str, n: int) -> tuple[list[int], str]:
        actions = []
        for _ in range(n):
            action = agent.act(where)
            following, reward, done, _, _ = env.step(action)
            agent.observe(where, action, reward, following, terminated=done)
            where = env.reset()[0] if done else following
            actions.append(action)
        return actions, where

    def test_exploration_can_be_chosen_and_is_kept(self, tmp_path: Path):
        agent = Agent(planned_model(), exploration="softmax").reset(3, 2)
        assert agent.problem.learner.explorer is None
        agent.save(tmp_path / "agent")
        assert Agent.load(tmp_path / "agent").exploration == "softmax"
        with pytest.raises(MdpfnError, match="softmax, directed"):
            Agent(planned_model(), exploration="blind")
