"""Common slip: it is found where it is, it is not where it is not, and tables stay tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdpfn import Agent
from mdpfn.bench.environments import TabularEnv
from mdpfn.evidence import PairTable, Statistics
from mdpfn.model.mdp import TabularMDP
from mdpfn.planners.foretold import foretold
from mdpfn.planners.slip import VISITS, Slip, SlipConfig, _Fit, _Places


def torus(width: int, slip: float) -> Any:
    """(S, A, S) of a grid without borders on which a step goes to one of the sides by mistake."""
    n = width**2
    transition = np.zeros((n, 4, n))
    for state in range(n):
        y, x = divmod(state, width)
        ways = [((y - 1) % width, x), (y, (x + 1) % width), ((y + 1) % width, x), (y, (x - 1) % width)]
        ends = [width * row + column for row, column in ways]
        for action in range(4):
            for turn, share in ((0, 1 - slip), (1, slip / 2), (3, slip / 2)):
                transition[state, action, ends[(action + turn) % 4]] += share
    return transition


def scattered(n_states: int, n_actions: int, n_successors: int) -> Any:
    """(S, A, S) where every pair has successors of its own."""
    rng = np.random.default_rng(0)
    transition = np.zeros((n_states, n_actions, n_states))
    for row in transition.reshape(-1, n_states):
        row[rng.choice(n_states, n_successors, replace=False)] = rng.dirichlet(np.ones(n_successors))
    return transition


def seen(transition: Any, n_visits: int, pays: int | None = None) -> PairTable:
    """The table of so many visits of every pair; arriving in state `pays` pays 1."""
    rng, (n_states, n_actions, _) = np.random.default_rng(1), transition.shape
    state, action = np.divmod(np.repeat(np.arange(n_states * n_actions), n_visits), n_actions)
    following = np.array([rng.choice(n_states, p=transition[s, a]) for s, a in zip(state, action, strict=True)])
    reward = (following == pays).astype(float)
    return Statistics.from_transitions(state, action, reward, following, n_states=n_states, n_actions=n_actions).table()


def error(z: PairTable, transition: Any) -> float:
    """The mean total variation of the rows of a table."""
    rows = np.zeros((transition.shape[0] * transition.shape[1], transition.shape[2]))
    rows[z.pair[z.transition_row], z.successor] = z.successor_probs
    wrong = np.abs(rows - transition.reshape(rows.shape)).sum(axis=1) / 2
    return float(wrong[z.pair].mean())


class TestWhereItIs:
    @pytest.mark.parametrize("slip", [0.2, 0.5])
    def test_rows_are_told_by_all_states_together(self, slip):
        truth = torus(6, slip)
        z = seen(truth, 8)
        told = foretold(z, Slip.of(z))
        assert error(told, truth) < 0.5 * error(z, truth)
        assert (told.n_visits > 2 * z.n_visits).mean() > 0.9

    def test_what_arriving_pays_is_foretold_too(self):
        truth, goal = torus(6, 0.5), 14
        z = seen(truth, 8, pays=goal)
        told = foretold(z, Slip.of(z))
        truly = truth.reshape(144, -1)[:, goal]
        near = truly[z.pair] > 0
        wrong, before = (np.abs(t.mean_reward - truly[z.pair])[near].mean() for t in (told, z))
        assert wrong < 0.5 * before


class TestWhereItIsNot:
    @pytest.mark.parametrize("n_visits", [3, 30])
    def test_rows_of_their_own_stay_as_they_were_seen(self, n_visits):
        z = seen(scattered(30, 4, 3), n_visits)
        assert Slip.of(z).visits == 0
        assert foretold(z, Slip.of(z)) is z

    def test_certain_worlds_and_few_data_have_none(self):
        assert Slip.of(seen(torus(4, 0.0), 5)).visits == 0
        assert Slip.of(seen(torus(2, 0.2), 1)).visits == 0

    def test_large_problems_are_left_as_they_are(self):
        z = seen(torus(6, 0.2), 8)
        assert Slip.of(z, config=SlipConfig(most_work=1000)).visits == 0

    def test_rewards_that_vary_for_reasons_of_their_own_are_not_foretold(self):
        """What was sold is not on stock any more: the mean reward of few visits is that of where they led."""
        truth, rng = torus(6, 0.3), np.random.default_rng(3)
        visits = np.repeat(np.arange(144), 12)
        following = np.array([rng.choice(36, p=truth.reshape(144, -1)[pair]) for pair in visits])
        state, action = np.divmod(visits, 4)

        def slip_of(reward: Any) -> Slip:
            z = Statistics.from_transitions(state, action, reward, following, n_states=36, n_actions=4).table()
            return Slip.of(z)

        own_effect = truth[state, action, following] > 0.5
        assert slip_of(own_effect * np.where(action % 2, 1.0, -1.0)).visits == 0
        assert slip_of(np.cos(following)).visits > 0  # arriving explains these, …
        assert slip_of(np.cos(state + action)).visits > 0  # … and these belong to their pairs


class TestTheFit:
    def fit(self, n_visits: int = 3) -> _Fit:
        places = _Places.of(seen(torus(4, 0.5), n_visits))
        assert places is not None
        return _Fit(places, SlipConfig())

    def test_shares_are_probabilities_of_what_is_known(self):
        fit = self.fit()
        np.testing.assert_allclose(fit.mixing.sum(axis=1), 1)
        assert (fit.belief >= 0).all()
        assert (fit.places.sums(fit.belief) <= 1 + 1e-9).all()
        np.testing.assert_allclose(fit.share, fit.belief @ fit.mixing.T)

    def test_a_transition_left_out_is_what_its_definition_says(self):
        """Each belief again from counts without one transition, the others as they are."""
        fit, config = self.fit(), SlipConfig()
        count, owner = fit.places.count, fit.places.owner
        for place, action in np.argwhere(count > 0)[::17]:
            fewer, expected = count.copy(), fit.mixing[action, -1] * fit.belief[place, -1]
            fewer[place, action] -= 1
            mine = owner == owner[place]
            for effect in fit.effects:
                without = fit.share - np.outer(fit.belief[:, effect], fit.mixing[:, effect])
                more = np.log(without + fit.mixing[:, effect] + config.rounding) - np.log(without + config.rounding)
                weight = np.exp((fewer * more).sum(axis=1))
                expected += fit.mixing[action, effect] * weight[place] / (weight[mine].sum() + config.unseen)
            assert fit.left_out()[place, action] == pytest.approx(expected)

    def test_exchanging_effects_never_makes_the_data_less_likely(self):
        fit = self.fit()
        fit.belief[:, :2] = fit.belief[:, 1::-1]
        fit.share = fit.belief @ fit.mixing.T
        before = fit._likelihood(fit.share)
        fit._exchange()
        np.testing.assert_allclose(fit.share, fit.belief @ fit.mixing.T, atol=1e-12)
        assert (fit._likelihood(fit.share) >= before).all()
        assert fit._likelihood(fit.share).sum() > before.sum()


@given(st.integers(0, 2**32 - 1))
def test_a_foretold_table_is_a_table(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    state, action, following = rng.integers(n, size=(3, int(rng.integers(5, 60)))) % [[n], [3], [n]]
    ends = following == n - 1
    z = Statistics.from_transitions(state, action, ends * 1.0, following, ends, n_states=n, n_actions=3).table()
    slip = replace(Slip.of(z, config=SlipConfig(least_evidence=-1e9)), visits=float(rng.choice(VISITS)))
    told = foretold(z, slip) if len(slip.state) else z
    assert (np.diff(told.pair) > 0).all()
    assert (told.n_successors > 0).all()
    assert told.n_successors.sum() == len(told.successor) == len(told.transition_count)
    np.testing.assert_allclose(np.bincount(told.transition_row, told.transition_count), told.n_visits)
    assert (told.n_terminated <= told.transition_count).all()
    np.testing.assert_array_equal(told.pair, z.pair)
    assert (told.n_visits >= z.n_visits - 1e-9).all()
    assert ((told.mean_reward > -1e-9) & (told.mean_reward < 1 + 1e-9)).all()
    assert (told.reward_square_sum > told.reward_sum**2 / told.n_visits - 1e-9).all()


def test_a_saved_agent_goes_on_in_the_middle_of_an_episode(tmp_path: Path) -> None:
    mdp = TabularMDP.from_dense(torus(6, 0.2), np.eye(36)[:, :4], discount=0.9)
    env = TabularEnv(mdp, horizon=60)
    agent = Agent.from_pretrained()
    agent.solve(env, episodes=20, seed=0)
    observation, _ = env.reset(seed=1)
    assert agent.problem.learner.explorer.carried.slip.visits > 0
    for _ in range(10):
        action = agent.act(observation)
        following, reward, _, truncated, _ = env.step(action)
        agent.observe(observation, action, reward, following, terminated=False, truncated=truncated)
        observation = following
    agent.save(tmp_path / "agent.safetensors")
    again = Agent.load(tmp_path / "agent.safetensors")
    for here in range(36):
        assert agent.act(here) == again.act(here)
    mine, other = agent.problem.learner.explorer.carried, again.problem.learner.explorer.carried
    for name in vars(mine):
        np.testing.assert_array_equal(getattr(mine, name), getattr(other, name))
