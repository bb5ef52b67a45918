"""Distributions over a Box of actions, and the evidence nearest to an observation."""

import gymnasium as gym
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate

from mdpfn import Agent
from mdpfn.spaces.squashed import EDGE, SquashedGaussian

CODES = np.linspace(-1, 1, 5)[:, None]
LOW, HIGH = np.array([-3.0]), np.array([1.0])


def test_its_density_is_one():
    distribution = SquashedGaussian.of_policy(CODES, np.array([0.1, 0.2, 0.4, 0.2, 0.1]), LOW, HIGH)
    total, _ = integrate.quad(lambda a: np.exp(distribution.log_density(np.array([[a]]))[0]), -3, 1)
    assert_allclose(total, 1, atol=1e-6)
    assert_allclose(distribution.median, -1)
    drawn = distribution.sample(np.random.default_rng(0), 4000)
    assert ((drawn > LOW) & (drawn < HIGH)).all()
    below, _ = integrate.quad(lambda a: np.exp(distribution.log_density(np.array([[a]]))[0]), -3, -2)
    assert_allclose((drawn < -2).mean(), below, atol=0.03)


def test_a_sure_policy_gives_actions_near_its_point():
    sure = SquashedGaussian.of_policy(CODES, np.array([0, 0, 0, 0, 1.0]), LOW, HIGH)
    assert_allclose(sure.median, LOW + (HIGH - LOW) * (EDGE + 1) / 2)
    drawn = sure.sample(np.random.default_rng(0), 1000)
    assert (drawn > 0).mean() > 0.9
    assert drawn.std() > 0.01  # actions between points are not told apart


@pytest.fixture(scope="module")
def controller() -> Agent:
    """An agent that should push a point to the middle, from 400 logged pushes."""
    rng = np.random.default_rng(0)
    x, push = rng.uniform(-1, 1, (400, 1)), rng.uniform(-1, 1, (400, 1))
    y = x + 0.2 * push
    box = gym.spaces.Box(-1, 1, (1,), np.float64)
    return Agent.from_pretrained().fit(
        (x, push, -(y[:, 0] ** 2), y), observation_space=box, action_space=box, discount=0.9, seed=0
    )


def test_predictions_that_are_drawn_follow_the_distribution(controller):
    distribution = controller.action_distribution([0.8])
    assert isinstance(distribution, SquashedGaussian)
    assert distribution.median < 0 < controller.action_distribution([-0.8]).median
    drawn = np.array([controller.predict([0.8], deterministic=False)[0] for _ in range(60)])
    assert ((drawn >= -1) & (drawn <= 1)).all()
    assert len(np.unique(drawn)) == 60  # not the points of a grid
    assert abs(np.median(drawn) - distribution.median[0]) < 0.3
    assert controller.predict(np.array([[0.8], [-0.8]]), deterministic=False)[0].shape == (2, 1)


def test_discrete_actions_have_probabilities():
    agent = Agent.from_pretrained()
    agent.fit(([0, 0, 1], [0, 1, 0], [1.0, 0.0, 0.0], [1, 1, 1]), observation_space=2, action_space=2)
    policy = agent.action_distribution(0)
    assert_allclose(policy.sum(), 1)
    assert_allclose(policy, agent.plan().policy[0])


def test_nearest_evidence(controller):
    evidence = controller.evidence
    data = evidence.memory.batch()
    found, distance = evidence.nearest(np.array([0.5]), n=3)
    order = np.argsort(np.abs(data.x[:, 0] - 0.5))[:3]
    assert_allclose(found.x, data.x[order])
    assert_allclose(distance, np.abs(found.x[:, 0] - 0.5) / evidence.nodes.scale[0])
    right, _ = evidence.nearest(np.array([0.5]), 4)
    assert (right.action == 4).all()
    assert (right.code > 0.7).all()
