"""Where the data leaves no doubt it decides; where it does, the network does."""

import gymnasium as gym
import numpy as np
import pytest

from mdpfn import Agent, Statistics, Transition
from mdpfn.bench.environments.toy_text import toy_text
from mdpfn.model.exact import policy_value
from mdpfn.planners.overruling import overruled
from mdpfn.planners.policies import greedy_actions

START, GOAL = 36, 47
WAY_OUT = [(START, 0), *((24 + i, 1) for i in range(11)), (35, 2)]


@pytest.fixture(scope="module")
def wanderings() -> list[tuple[int, int, float, int, bool]]:
    """Many random steps beside a cliff, which reach the goal next to never."""
    env, rng, rows = gym.make("CliffWalking-v1"), np.random.default_rng(0), []
    for seed in range(400):
        state, _ = env.reset(seed=seed)
        for _ in range(60):
            action = int(rng.integers(4))
            following, reward, terminated, *_ = env.step(action)
            rows.append((state, action, float(reward), following, terminated))
            state = following
            if terminated:
                break
    return rows


@pytest.mark.parametrize("times", [1, 10])
def test_one_way_out_among_many_wanderings_is_taken(wanderings, times):
    following = [state for state, _ in WAY_OUT[1:]] + [GOAL]
    walked = [(s, a, -1.0, n, n == GOAL) for (s, a), n in zip(WAY_OUT, following, strict=True)]
    agent = Agent.from_pretrained().fit(wanderings + walked * times, observation_space=48, action_space=4)
    mdp, plan = toy_text("CliffWalking-v1", discount=0.95), agent.plan()
    network_alone = policy_value(mdp, greedy_actions(plan.policy_logits, plan.unknown))[START]
    assert network_alone < policy_value(mdp, plan.greedy)[START]
    assert policy_value(mdp, plan.greedy)[START] == pytest.approx(policy_value(mdp, np.array(best(mdp)))[START])
    assert (plan.policy.argmax(axis=1) == plan.greedy)[~plan.unknown].all()


def best(mdp) -> list[int]:
    """(S,) the best actions, by plain value iteration."""
    value, transition = np.zeros(mdp.n_states), mdp.dense_transition
    for _ in range(2000):
        q = mdp.reward + mdp.discount * transition @ value
        value = q.max(axis=1)
    return q.argmax(axis=1).tolist()


def test_while_there_is_doubt_the_network_decides():
    statistics = Statistics(3, 2)
    rng = np.random.default_rng(0)
    for _ in range(6):
        statistics.add(Transition(0, int(rng.integers(2)), float(rng.normal()), 1))
    plan = Agent.from_pretrained().plan(statistics)
    assert plan.scores is plan.policy_logits


def test_an_action_that_does_not_exist_is_never_put_in_place_of_another():
    statistics = Statistics(2, 3)
    statistics.allow(0, (True, False, True))
    for action, reward in ((0, 0.0), (2, 1.0)):
        for _ in range(500):
            statistics.add(Transition(0, action, reward, 1, terminated=True))
    plan = Agent.from_pretrained().plan(statistics)
    assert plan.greedy[0] == 2
    assert plan.policy[0, 1] == 0


def test_two_ways_out_are_not_mixed_into_a_circle():
    """Left is the better way out, but where the first door is the network's right stays: its own way is kept."""
    left, right, first, second = 0, 1, 0, 1
    statistics = Statistics(3, 2)
    for action, visits, reward, following in ((left, 500, 2.0, 2), (right, 4, 0.0, second)):
        for _ in range(visits):
            statistics.add(Transition(first, action, reward, following, terminated=following == 2))
    for action, reward, following in ((left, 0.0, first), (right, 1.0, 2)):
        for _ in range(500):
            statistics.add(Transition(second, action, reward, following, terminated=following == 2))
    posterior = Agent.from_pretrained().plan(statistics).posterior
    rightwards = np.tile([0.0, 1.0], (3, 1))
    assert greedy_actions(overruled(rightwards, posterior, 0.95))[:2].tolist() == [right, right]
    leftwards_first = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert greedy_actions(overruled(leftwards_first, posterior, 0.95))[:2].tolist() == [left, left]
