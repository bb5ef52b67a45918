"""Models that may be the true one: as the data says, and as the prior says of the rest; policies evaluated in them."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import beta, kstest, norm
from scipy.stats import t as student

from mdpfn import Agent, Statistics, TabularMDP
from mdpfn.bench.environments import ENVIRONMENTS
from mdpfn.bench.protocols.logged_data import LogSource, soft_policy
from mdpfn.model.exact import Scorer, optimal_q, policy_value
from mdpfn.model.policy_values import occupancy
from mdpfn.planners.arrival import arrival_rewards
from mdpfn.planners.posterior import ModelPosterior
from mdpfn.planners.q_posterior import effective_visits, q_quantiles, tail_steps
from mdpfn.planners.unseen import _chances_of_new, unseen_weights

LEVELS = (0.05, 0.5, 0.95)


def _posterior(history: Statistics, prior: float | np.ndarray = 0.0) -> ModelPosterior:
    shape = (history.n_states, history.n_actions, len(LEVELS))
    return ModelPosterior.of(history.table(), np.broadcast_to(np.asarray(prior, dtype=float), shape), LEVELS)


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_what_is_certain_does_not_vary():
    history = Statistics.from_transitions([0, 0, 1, 1], [0] * 4, [1.0, 1.0, 2.0, 2.0], [1, 1, 0, 0])
    draws = _posterior(history).drawn(_rng(), 5).policy_value(np.ones((2, 1)), 0.9)
    v0 = (1 + 0.9 * 2) / (1 - 0.81)
    np.testing.assert_allclose(draws, np.tile([v0, 2 + 0.9 * v0], (5, 1)), rtol=1e-6)


def test_chances_are_dirichlet():
    """Of five visits three led to a state worth 10 and two to nothing: the share is Beta(3, 2)."""
    s, t = [0] * 5 + [1, 1, 2, 2], [1, 1, 1, 2, 2, 1, 1, 2, 2]
    history = Statistics.from_transitions(s, [0] * 9, [0.0] * 5 + [1.0, 1.0, 0.0, 0.0], t)
    posterior = _posterior(history)
    settled = replace(posterior, unseen=np.zeros_like(posterior.unseen))
    draws = settled.drawn(_rng(), 4000).policy_value(np.ones((3, 1)), 0.9)
    assert kstest(draws[:, 0] / 9, beta(3, 2).cdf).pvalue > 1e-3
    np.testing.assert_allclose(draws[:, 1], 10)


def test_mean_rewards_have_the_error_of_a_mean():
    rewards = np.random.default_rng(1).normal(3, 2, size=400)
    history = Statistics.from_transitions([0] * 400, [0] * 400, rewards, [0] * 400)
    draws = _posterior(history).drawn(_rng(), 2000).policy_value(np.ones((1, 1)), 0.0)
    assert draws.mean() == pytest.approx(rewards.mean(), abs=0.02)
    assert draws.std() == pytest.approx(rewards.std() / 20, rel=0.1)


def test_a_single_reward_may_vary_as_others_do():
    """Visited once, a pair cannot tell how its rewards vary: those of other pairs do."""
    s, r = [0] * 50 + [1], [*np.tile([1.0, -1.0], 25), 0.0]
    often, once = _posterior(Statistics.from_transitions(s, [0] * 51, r, [0] * 51)).reward_error
    assert once == pytest.approx(np.sqrt(50 / 49))
    assert often == pytest.approx(1 / np.sqrt(50), rel=0.05)


def test_what_arriving_pays_is_no_error_of_any_pair():
    """A goal pays 1 and leads back to the start; half the steps towards it fail. Standing still, tried once, pays 0."""
    s, a = [0] * 40 + [0] + [1] * 20, [0] * 40 + [1] + [0] * 20
    to = [*np.tile([0, 1], 20), 0] + [0] * 20
    history = Statistics.from_transitions(s, a, [float(x == 1) for x in to], to, n_actions=2)
    posterior = _posterior(history)
    np.testing.assert_array_equal(posterior.reward_error, 0)
    assert posterior.drawn(_rng(), 20).optimal_q(0.9)[:, :2].max() < 1 / (1 - 0.9**2)  # every second step, at most


def test_drawn_rewards_lie_between_those_that_there_are():
    s, r = [0] * 50 + [1], [*np.tile([0.0, -1.0], 25), 0.0]
    z = Statistics.from_transitions(s, [0] * 51, r, [0] * 51).table()
    prior = np.zeros((2, 1, len(LEVELS)))
    free, told = (ModelPosterior.of(z, prior, LEVELS, *given).drawn(_rng(), 50).reward for given in ((), ((-1, 0),)))
    assert free.max() > 0
    np.testing.assert_array_equal(told, free.clip(-1, 0))


def test_a_pair_never_visited_is_worth_what_the_prior_says():
    history = Statistics.from_transitions([0, 0], [0, 0], [1.0, 1.0], [0, 0], n_actions=2)
    posterior = _posterior(history, np.array([2.0, 5.0, 9.0]))
    q = q_quantiles(posterior, 0.5, _rng())
    heavier = (student.ppf(0.95, 4) / student.ppf(0.75, 4)) / (norm.ppf(0.95) / norm.ppf(0.75))
    np.testing.assert_allclose(q[0, 1], 5 + heavier * np.array([-3, 0, 4]))
    np.testing.assert_allclose(q[0, 0], 1 + 0.5 * q[0, 1])


def test_the_tails_of_a_value_are_those_of_the_pairs_that_its_doubt_comes_from():
    """State 0 leads to 1 for sure, as 1,000 visits say; what 1 pays is known from four, and 2 pays by chance too."""
    s = [0] * 1000 + [1] * 4 + [2] * 100
    r = [0.0] * 1000 + [1.0, -1.0] * 2 + [3.0, -3.0] * 50
    to = [1] * 1000 + [3] * 4 + [1] * 100
    ended = [False] * 1000 + [True] * 4 + [False] * 100
    posterior = _posterior(Statistics.from_transitions(s, [0] * len(s), r, to, ended))
    found = effective_visits(posterior, np.zeros((4, 1)), 0.5)[:, 0]
    error = posterior.reward_error**2  # Var[r̂] of 0, 1 and 2
    own = error / posterior.table.n_visits
    assert found[1] == pytest.approx(4)
    assert found[0] == pytest.approx((error[0] + error[1] / 4) / (own[0] + own[1] / 4))
    assert found[2] == pytest.approx((error[2] + error[1] / 4) / (own[2] + own[1] / 4))
    assert found[1] < found[0] < found[2]


def test_what_was_seen_once_says_that_more_may_come():
    """Every successor was another one: it is probable that the next visit ends elsewhere, worth what the prior says."""
    seen = Statistics.from_transitions([0, 0, 1, 1], [0] * 4, [0.0] * 4, [0, 1, 0, 1])
    settled = Statistics.from_transitions([0] * 4, [0] * 4, [0.0] * 4, [0] * 4)
    assert (_posterior(seen).unseen > 0.5).all()
    np.testing.assert_array_equal(_posterior(settled).unseen, 0)
    assert q_quantiles(_posterior(seen, 10.0), 0.9, _rng()).mean() > 1
    np.testing.assert_array_equal(q_quantiles(_posterior(settled, 10.0), 0.9, _rng()), 0)


def _chances_by_enumeration(z, n: int) -> tuple[float, float]:
    """The same as `unseen._chances_of_new`, by all orders in which the visits of every pair may have come about."""
    new, same, same_new, others = 0.0, 0.0, 0.0, 0.0
    for row in range(len(z.pair)):
        mine = z.transition_row == row
        visits = np.repeat(z.successor[mine], z.transition_count[mine].astype(int)).tolist()
        if len(visits) <= n:
            continue
        orders = list(permutations(visits))
        for order in orders:
            alike, is_new = len(set(order[:n])) == 1, order[n] not in order[:n]
            same, others = same + alike / len(orders), others + (not alike) / len(orders)
            same_new += (alike and is_new) / len(orders)
            new += (not alike and is_new) / len(orders)
    return same_new / same if same else np.nan, new / others if others else np.nan


def test_what_was_not_seen_yet_is_told_by_pairs_with_more_visits():
    """Sums over successors are the share of all orders of the visits in which the next one is new."""
    s = [0] * 6 + [1] * 4 + [2] * 3 + [3]
    t = [0, 0, 0, 1, 1, 2, 1, 1, 1, 1, 0, 0, 3, 2]
    z = Statistics.from_transitions(s, [0] * len(s), [0.0] * len(s), t).table()
    for n in range(1, 6):
        found = [float(each[0]) for each in _chances_of_new(z, np.array([float(n)]))]
        np.testing.assert_allclose(found, _chances_by_enumeration(z, n), atol=1e-12)
    chance = unseen_weights(z) / (unseen_weights(z) + z.n_visits)
    assert chance[3] > chance[1] > 0  # once is less than four times: others that began alike went on to something new


def test_a_single_visit_of_a_noisy_world_leaves_much_open():
    """Thousands of visits elsewhere show all that there is there; that says nothing of a pair that was tried once."""
    s = [0] * 2000 + [1] * 2000 + [2]
    z = Statistics.from_transitions(s, [0] * 4001, [0.0] * 4001, [0, 1] * 2000 + [0]).table()
    np.testing.assert_allclose(unseen_weights(z)[:2], 0, atol=1e-9)
    once = unseen_weights(z)[2]
    assert once / (once + 1) == pytest.approx(0.5, abs=0.01)


def test_rewards_of_pairs_that_arriving_does_not_explain_stay_what_they_are():
    """One pair of many pays by itself: its mean is the data's, whatever explains the others."""
    rng, n = _rng(), 400
    s, t = np.repeat(np.arange(4), n), rng.integers(0, 2, size=4 * n)
    r = np.where(t == 1, 10.0, 0.0)
    r[s == 3] = rng.normal(5.0, 1.0, size=n)
    z = Statistics.from_transitions(s, [0] * len(s), r, t).table()
    paid, explained = arrival_rewards(z)
    assert not explained[3]
    models = _posterior(Statistics.from_transitions(s, [0] * len(s), r, t)).drawn(rng, 400)
    np.testing.assert_allclose(models.reward[:, 3].std(), 1 / np.sqrt(n), rtol=0.2)
    np.testing.assert_allclose(models.reward.mean(axis=0), z.mean_reward, atol=0.15)
    assert len(paid) == z.n_states[0]


def test_rewards_that_successors_explain_move_with_them():
    """On the frozen lake only the goal pays: where chance is drawn to lead there more often, the reward is larger."""
    lake, goal = ENVIRONMENTS["frozen-lake"].build(), 15
    pays = np.broadcast_to(np.arange(lake.n_states) == goal, lake.dense_transition.shape)
    mdp = TabularMDP.from_dense(lake.dense_transition, pays, terminal=lake.terminal)
    visits = np.where(mdp.terminal[:, None], 0, 30) * np.ones((1, mdp.n_actions), dtype=np.int64)
    posterior = _posterior(LogSource(mdp).visits(visits, _rng()))
    z = posterior.table
    assert posterior.on_arrival.any()
    models = replace(posterior, unseen=np.zeros_like(posterior.unseen)).drawn(_rng(), 8)
    for row in np.flatnonzero(posterior.on_arrival):
        mine = (z.transition_row == row) & (z.successor == goal)
        np.testing.assert_allclose(models.reward[:, row], models.share[:, mine].sum(axis=1), atol=1e-9)
    noisy = ENVIRONMENTS["bandit-10"].build()
    assert not _posterior(LogSource(noisy).visits(np.full(noisy.reward.shape, 30), _rng())).on_arrival.any()


@pytest.mark.parametrize("name", ["gridworld-5x5", "four-rooms", "garnet-10-3-2"])
def test_values_in_a_model_are_those_of_the_model(name: str):
    """With as much data as the truth has chances, the expected model is the truth: exact values are the oracle."""
    mdp = ENVIRONMENTS[name].build()
    p, n = mdp.dense_transition, 1_000_000
    counts = np.round(p * n) * ~mdp.terminal[:, None, None]
    sums = mdp.reward * counts.sum(-1)
    history = Statistics.from_counts(counts, sums, mdp.terminal)
    models = _posterior(history).expected(np.array([0.5]))
    policy = soft_policy(mdp, 0.5)
    np.testing.assert_allclose(models.policy_value(policy, mdp.discount)[0], policy_value(mdp, policy), atol=1e-3)
    q = models.optimal_q(mdp.discount)[0]
    np.testing.assert_allclose(q[~mdp.terminal], optimal_q(mdp)[~mdp.terminal], atol=1e-2)
    share = (models.share * (1 - models.ends))[0]
    visits = occupancy(models.table, policy, share, mdp.start, mdp.discount)
    assert (visits * mdp.reward).sum() == pytest.approx(mdp.start @ policy_value(mdp, policy), abs=1e-3)


def test_tails_are_heavy_with_few_visits_and_normal_with_many():
    levels = np.array([0.05, 0.5, 0.95])
    few, many = tail_steps(3, levels), tail_steps(1e6, levels)
    np.testing.assert_allclose(few, -few[::-1])
    assert few[2] > 3
    assert many[2] == pytest.approx(1.645, rel=0.06)


@pytest.mark.parametrize("score", [0.3, 0.6])
def test_soft_policies_are_as_good_as_asked_for(score: float):
    mdp = ENVIRONMENTS["river-swim-6"].build()
    assert Scorer(mdp)(soft_policy(mdp, score)) == pytest.approx(score, abs=1e-3)


def test_logs_as_counts_are_logs_of_episodes():
    """Visits are those that the policy makes, ends are those of the world, and rewards have their mean and variance."""
    mdp = ENVIRONMENTS["river-swim-6"].build()
    policy = soft_policy(mdp, 0.6)
    log = LogSource(mdp).episodes(policy, 4000, 5, _rng())
    expected, here = np.zeros(mdp.n_states), mdp.start
    for _ in range(5):
        expected += here
        here = here @ np.einsum("sa,sat->st", policy, mdp.dense_transition)
    visits = log.statistics.table().visits_table()
    np.testing.assert_allclose(visits.sum(axis=1) / 4000, expected, atol=0.05)
    assert sum(log.starts.values()) == 4000
    noisy = ENVIRONMENTS["bandit-10"].build()
    z = LogSource(noisy).visits(np.full(noisy.reward.shape, 5000), _rng()).table()
    np.testing.assert_allclose(z.mean_reward, noisy.reward.reshape(-1), atol=0.1)
    variance = z.reward_square_sum / z.n_visits - z.mean_reward**2
    np.testing.assert_allclose(np.sqrt(variance), noisy.reward_std.reshape(-1), rtol=0.06, atol=1e-9)


def test_intervals_of_the_agent_hold():
    """A share of 90 % intervals of Q* that holds the truth, over data sets: what `benchmarks.intervals` measures."""
    mdp, rng, agent = ENVIRONMENTS["garnet-10-3-2"].build(), _rng(), Agent.from_pretrained()
    truth, source, held = optimal_q(mdp), LogSource(mdp), []
    for _ in range(16):
        plan = agent.plan(source.visits(np.full(mdp.reward.shape, 100), rng), discount=mdp.discount)
        low, high = plan.interval(0.9)
        held.append(((low <= truth) & (truth <= high)).mean())
    assert 0.7 <= np.mean(held) <= 0.999
