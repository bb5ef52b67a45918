"""The in-context learner: when it plans, what it acts by, and what it exploits by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mdpfn.bench.environments.gridworld import gridworld
from mdpfn.bench.environments.simulator import Simulator
from mdpfn.evidence import PairTable, Statistics, Transition
from mdpfn.online.in_context import InContextLearner, Planner
from mdpfn.planners.output import PlannerOutput
from mdpfn.planners.policies import greedy_actions
from mdpfn.planners.problem_info import ProblemInfo


class CountingPlanner:
    """Logits that prefer the action visited least, and a record of how it was called."""

    def __init__(self) -> None:
        self.calls: list[tuple[PairTable, ProblemInfo]] = []

    def __call__(self, table: PairTable, info: ProblemInfo) -> PlannerOutput:
        self.calls.append((table, info))
        return PlannerOutput(-table.visits_table())


def learner(n_states: int, n_actions: int, planner: Planner, **options: Any) -> InContextLearner:
    info = ProblemInfo.of(0.9, options.pop("reward_range", None))
    given = {"exploration": "softmax", "acting_temperature": 1.0, **options}
    return InContextLearner(Statistics(n_states, n_actions), info, np.random.default_rng(0), planner=planner, **given)


def test_it_plans_once_per_episode() -> None:
    mdp, planner = gridworld(3), CountingPlanner()
    agent = learner(mdp.n_states, mdp.n_actions, planner)
    simulator = Simulator(mdp, np.random.default_rng(0))
    for _ in range(5):
        state = simulator.reset()
        for step in range(50):
            action = agent.act(state)
            reward, following, _ = simulator.step(action)
            agent.observe(Transition(state, action, reward, following, truncated=step == 49))
            state = following
    assert len(planner.calls) == 5
    agent.plan()
    agent.plan()
    assert len(planner.calls) == 6
    agent.act(0)  # by the same plan
    assert len(planner.calls) == 6


def test_it_also_plans_after_some_steps_if_asked_to() -> None:
    planner = CountingPlanner()
    agent = learner(2, 2, planner, replan_every=4)
    for _ in range(12):
        agent.observe(Transition(0, agent.act(0), 0.0, 1))
    assert len(planner.calls) == 3
    agent.act(0)
    assert len(planner.calls) == 4


def test_an_episode_left_half_done_ends_its_policy() -> None:
    planner = CountingPlanner()
    agent = learner(2, 2, planner)
    agent.observe(Transition(0, agent.act(0), 0.0, 1))
    assert agent.clock.step == 1
    agent.begin(3)
    assert not agent.has_plan
    assert (agent.clock.step, agent.clock.budget) == (0, 3)
    agent.act(0)
    assert len(planner.calls) == 2


@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_it_acts_by_the_softmax_of_its_logits(temperature: float) -> None:
    logits = np.array([[0.0, 0.5, -1.0]])
    agent = learner(1, 3, lambda table, info: PlannerOutput(logits), acting_temperature=temperature)
    frequency = np.bincount([agent.act(0) for _ in range(5000)], minlength=3) / 5000
    weights = np.exp(logits[0] / temperature)
    assert frequency == pytest.approx(weights / weights.sum(), abs=0.025)
    assert agent.plan().tolist() == [[0, 1, 0]]


def test_where_nothing_is_known_actions_take_turns() -> None:
    """As often as the policy has them, in no order that a row of states could share, and the same every time."""
    n = 1000
    logits = np.tile([0.0, 0.5, 0.1], (n, 1))
    unknown = np.arange(n) > 0
    answer = PlannerOutput(logits, unknown=unknown)
    agent = learner(n, 3, lambda table, info: answer)
    policy = agent.plan()
    assert set(policy.max(axis=1)) == {1.0}
    assert policy[0].tolist() == [0, 1, 0]
    weights = np.exp(logits[0] / 0.25)
    np.testing.assert_allclose(policy[1:].mean(axis=0), weights / weights.sum(), atol=0.01)
    for stride in (1, 4, 10):  # in rows and in columns of a grid
        assert all(len(set(policy[1 + i :: stride][:30].argmax(axis=1))) > 1 for i in range(stride))
    np.testing.assert_array_equal(agent.plan(), policy)
    np.testing.assert_array_equal(greedy_actions(logits, unknown), policy.argmax(axis=1))
    assert (greedy_actions(logits, ~unknown)[1:] == 1).all()
    assert (greedy_actions(logits) == 1).all()


def test_it_exploits_what_it_knows_now_and_explores_by_what_it_knew() -> None:
    agent = learner(1, 2, CountingPlanner(), acting_temperature=1e-6)
    agent.observe(Transition(0, 1, 0.0, 0))
    assert agent.act(0) == 0
    agent.observe(Transition(0, 0, 0.0, 0))
    agent.observe(Transition(0, 0, 0.0, 0))
    assert agent.plan().tolist() == [[0, 1]]
    assert agent.act(0) == 0
    agent.observe(Transition(0, 0, 0.0, 0, truncated=True))
    assert agent.act(0) == 1


def test_states_may_come_later() -> None:
    planner = CountingPlanner()
    agent = learner(1, 3, planner)
    agent.act(0)
    agent.evidence.make_room(4)
    assert {agent.act(3) for _ in range(60)} == {0, 1, 2}  # any action, as no plan knows the state yet
    assert len(planner.calls) == 1
    assert agent.plan().shape == (4, 3)
    assert len(planner.calls) == 2


def test_the_planner_is_told_the_scale_of_rewards() -> None:
    planner = CountingPlanner()
    for reward_range, scale in ((None, 3.0), ((-8.0, 5.0), 8.0)):
        agent = learner(2, 2, planner, reward_range=reward_range)
        agent.observe(Transition(0, 0, -3.0, 1))
        agent.plan()
        table, info = planner.calls[-1]
        assert table.reward_scale.tolist() == [scale]
        assert float(info.discount[0]) == 0.9


def test_without_exploration_it_acts_by_its_plan() -> None:
    planner = CountingPlanner()
    for exploration in ("softmax", "directed"):
        agent = learner(1, 3, planner, exploration=exploration, explore=False)
        agent.observe(Transition(0, 0, 0.0, 0))
        agent.observe(Transition(0, 1, 0.0, 0, truncated=True))
        assert {agent.act(0) for _ in range(30)} == {2} == {int(agent.plan()[0].argmax())}


def test_actions_that_do_not_exist_are_never_taken() -> None:
    """Not by a policy, not by chance where there is no policy yet."""
    agent = learner(1, 4, lambda table, info: PlannerOutput(masked(table)), acting_temperature=10.0)
    agent.evidence.allow(0, (False, True, False, True))
    assert {agent.act(0) for _ in range(100)} == {1, 3}
    agent.evidence.make_room(2)
    agent.evidence.allow(1, (True, False, False, True))
    assert {agent.act(1) for _ in range(100)} == {0, 3}
    assert agent.plan()[0, [0, 2]].tolist() == [0, 0]


def masked(table: PairTable) -> np.ndarray:
    logits = np.zeros((int(table.n_states[0]), 4))
    logits.reshape(-1)[table.forbidden] = -np.inf
    return logits
