"""What decides about plans on vectors: data spread evenly, and episodes judged from their beginning to their end."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mdpfn.evidence.smoothed import SmootherConfig
from mdpfn.evidence.smoothed.memory import Batch
from mdpfn.evidence.smoothed.smoother import fit_smoother
from mdpfn.online.selection import MOMENTS, Lived, Selection
from mdpfn.online.underway import MOST_MOMENTS, Underway

CODES = np.array([[-1.0], [1.0]])


def pendulum(theta: np.ndarray, speed: np.ndarray, action: np.ndarray) -> Batch:
    """One step of a pendulum from these states, seen as (cos, sin, speed), with the usual cost."""
    torque = 2 * CODES[action, 0]
    faster = speed + (15 * np.sin(theta) + 3 * torque) * 0.05
    after = theta + faster * 0.05
    x, y = (np.stack([np.cos(t), np.sin(t), v], 1) for t, v in ((theta, speed), (after, faster)))
    return Batch(x, action, CODES[action], -(theta**2) - 0.1 * speed**2, y, np.zeros(len(x), np.bool_))


def test_where_it_dwells_does_not_make_outliers_of_everything_else():
    """760 steps at rest and 40 of a swing: what is usual at the top is not what is possible."""
    rng = np.random.default_rng(0)
    rest = pendulum(rng.normal(0, 0.02, 760), rng.normal(0, 0.05, 760), rng.integers(2, size=760))
    swing = pendulum(rng.uniform(-3, 3, 40), rng.uniform(-6, 6, 40), rng.integers(2, size=40))
    both = Batch(*map(np.concatenate, zip(rest, swing, strict=True)))
    smoother = fit_smoother(both, (np.full(3, -np.inf), np.full(3, np.inf)), SmootherConfig(), rng)
    predicted = smoother.predict(swing.x, swing.code)
    error = np.abs(predicted - np.column_stack([swing.y - swing.x, swing.reward])).mean(0)
    assert (error < 0.1 * np.column_stack([swing.y - swing.x, swing.reward]).std(0)).all()


@pytest.mark.parametrize("n_steps", [1, 5, 700])
def test_an_episode_knows_what_it_paid_since_moments_from_its_beginning_to_its_end(n_steps):
    rewards = np.random.default_rng(n_steps).normal(size=n_steps)
    episode = Underway.starting(np.zeros(1))
    for t, reward in enumerate(rewards):
        episode.step(float(reward), np.array([t + 1.0]), 0.9)
    assert 0 < len(episode.returns) <= MOST_MOMENTS
    assert_allclose(np.diff(episode.moments[:, 0]), episode.every)
    assert episode.moments[0, 0] == 0
    assert n_steps - episode.moments[-1, 0] <= episode.every
    for (t,), paid, fade in zip(episode.moments.astype(int), episode.returns, episode.fades, strict=True):
        assert_allclose(paid, sum(0.9 ** (s - t) * rewards[s] for s in range(t, n_steps)))
        assert_allclose(fade, 0.9 ** (n_steps - t))


class Judge:
    """A plan that believes every state to be worth the same."""

    is_lost, value_range = False, 100.0

    def __init__(self, value: float = 100.0, bound: float = 200.0) -> None:
        self.value, self.bound = value, bound

    def state_value(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), self.value)


def episode_of(n_steps: int) -> Underway:
    """One that pays 1 a step."""
    episode = Underway.starting(np.zeros(1))
    for _ in range(n_steps):
        episode.step(1.0, np.zeros(1), 0.99)
    return episode


def test_a_late_fall_counts():
    """Seen from the first step a fall after 400 is discounted away; an episode that was cut off lived as planned."""
    selection = Selection(SmootherConfig())
    selection.propose(Judge(), 100)
    selection.lived(selection.acting, episode_of(400), cut_off=True)
    assert selection.confirmed
    assert len(selection.incumbent.returns) == MOMENTS
    selection.propose(Judge(), 110)
    assert selection.acting is selection.incumbent  # too little is new to try it,
    assert selection.trusted is selection.newest  # but one episode may have been lucky
    selection.lived(selection.acting, episode_of(400), cut_off=False)
    assert not selection.confirmed
    assert selection.acting is selection.trusted is selection.newest


def test_a_plan_that_knows_more_is_tried_once_and_takes_the_place_if_it_lives_as_well():
    selection = Selection(SmootherConfig())
    selection.propose(Judge(), 100)
    first = selection.acting
    selection.lived(first, episode_of(500), cut_off=True)
    selection.propose(Judge(), 150)
    second = selection.acting
    assert second is selection.newest is not first
    assert selection.trusted is second  # one episode of the first tells little
    selection.lived(second, episode_of(100), cut_off=False)
    assert selection.acting is selection.trusted is selection.incumbent is first
    for _ in range(3):
        selection.lived(first, episode_of(500), cut_off=True)
    selection.propose(Judge(), 200)
    third = selection.acting
    assert third is selection.newest
    assert selection.trusted is first  # until the third was tried
    selection.lived(third, episode_of(500), cut_off=True)
    assert selection.trusted is selection.incumbent is third
    assert len(third.returns) == selection.config.n_judged * MOMENTS  # with the record of the one before
    selection.propose(Judge(105.0), 210)  # it believes that there is more
    assert selection.acting is selection.trusted is selection.newest
    assert isinstance(third, Lived)


def test_a_plan_than_which_none_can_be_better_is_not_challenged_until_it_fails():
    selection = Selection(SmootherConfig())
    selection.propose(Judge(bound=100.0), 100)
    first = selection.acting
    for _ in range(selection.config.n_judged):
        assert not selection.perfect  # a few episodes may have begun in lucky places
        selection.lived(first, episode_of(500), cut_off=True)
    assert selection.perfect
    selection.propose(Judge(bound=100.0), 1000)
    assert selection.acting is selection.trusted is first
    selection.lived(first, episode_of(100), cut_off=False)
    assert not selection.perfect
    assert selection.acting is selection.trusted is selection.newest
