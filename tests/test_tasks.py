"""Tasks: what is observed in them is what their MDPs do, what they teach is right, and they go on after a stop."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from scipy.stats import chi2

from mdpfn import Agent
from mdpfn.arrays import Floats
from mdpfn.bench.protocols.held_out import statistics_of
from mdpfn.errors import MdpfnError
from mdpfn.evidence import PairTable
from mdpfn.exploration.clock import Clock
from mdpfn.exploration.earning import EarningExplorer
from mdpfn.model.exact import Scorer, optimal_q, policy_value, solve
from mdpfn.model.mdp import TabularMDP
from mdpfn.network.config import NetworkConfig
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.packing import Answer
from mdpfn.network.tensors import tensors_of
from mdpfn.planners.classical import CERTAINTY_EQUIVALENT
from mdpfn.planners.output import MIXING_TEMPERATURE
from mdpfn.planners.policies import softmax
from mdpfn.prior.world import WorldConfig, sample_world
from mdpfn.training.config import ObjectiveConfig
from mdpfn.training.held_out import held_out_batches, validate_batches
from mdpfn.training.objective import LARGEST_PULL, quantile_loss, return_gradient
from mdpfn.training.pool import TaskPool, TrainingBatch, greedy_among_ties
from mdpfn.training.tasks import BEHAVIOURS, Behaviour, Rollout, Task, TaskConfig, begin, cover
from tests.strategies import mdps
from tests.test_slip import torus

WORLD = WorldConfig(n_states=(2, 8), n_actions=(2, 3), discount=(0.8, 0.95))
SAMPLER = partial(sample_world, config=WORLD)
CONFIG = TaskConfig(slots=6, episodes=(1, 4), steps=(5, 20))


def only(behaviour: Behaviour, **changes: object) -> TaskConfig:
    shares = tuple(float(kind == behaviour) for kind in BEHAVIOURS)
    return replace(CONFIG, behaviours=shares, **changes)


def small_mdp(seed: int = 0, reward_std: float = 0.0) -> TabularMDP:
    """Six states, the last one terminal, rewards of transitions, two possible starts."""
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.full(6, 0.5), (6, 2))
    transition[transition < 0.05] = 0
    transition /= transition.sum(axis=2, keepdims=True)
    start = np.array([0.25, 0.75, 0, 0, 0, 0])
    return TabularMDP.from_dense(
        transition, rng.normal(size=(6, 2, 6)), start=start, terminal=[5], reward_std=reward_std, discount=0.9
    )


def task_of(mdp: TabularMDP, seed: int = 0, **changes: object) -> Task:
    task = begin(np.random.default_rng(seed), 0, mdp, only("uniform"))
    return replace(task, **changes)


def run_for_long(tasks: list[Task], policies: list[Floats], episodes: int = 40) -> None:
    rng = np.random.default_rng(1)
    rollout = Rollout(tasks)
    for _ in range(episodes):
        rollout.run_episode(rng, np.concatenate([policy.reshape(-1) for policy in policies]))


def row_of(mdp: TabularMDP) -> np.ndarray:
    return np.repeat(np.arange(mdp.transition.shape[0]), np.diff(mdp.transition.indptr))


def looks_drawn_from(count: Floats, probabilities: Floats, group: np.ndarray) -> bool:
    """Pearson's test of counts against probabilities within groups, at a level no honest draw fails."""
    total = np.bincount(group, weights=count)[group]
    expected = total * probabilities
    seen = expected > 0
    statistic = np.sum((count[seen] - expected[seen]) ** 2 / expected[seen])
    freedom = int(seen.sum()) - len(np.unique(group[seen]))
    return bool(count[~seen].sum() == 0 and statistic < chi2.ppf(1 - 1e-6, max(freedom, 1)))


class TestRunning:
    def test_transitions_actions_and_starts_follow_the_mdp(self):
        mdps = [small_mdp(0), small_mdp(1)]
        policies = [np.tile([0.2, 0.8], (6, 1)), np.tile([0.7, 0.3], (6, 1))]
        tasks = [task_of(mdp, steps=50, reports=True, again=True) for mdp in mdps]
        run_for_long(tasks, policies, 100)
        for task, policy in zip(tasks, policies, strict=True):
            assert task.count.sum() == 100 * 50
            row = row_of(task.mdp)
            assert looks_drawn_from(task.count, task.mdp.transition.data, row)
            assert not looks_drawn_from(task.count, task.mdp.transition.data[::-1], row)  # the check can fail
            visits = np.bincount(row, weights=task.count, minlength=12)
            assert looks_drawn_from(visits, policy.reshape(-1), np.arange(12) // 2)

    def test_starts_follow_their_distribution(self):
        mdp = small_mdp()
        tasks = [task_of(mdp, steps=1, reports=True) for _ in range(50)]
        run_for_long(tasks, [np.full((6, 2), 0.5)] * 50, 20)
        visits = sum(np.bincount(row_of(mdp) // 2, weights=task.count, minlength=6) for task in tasks)
        assert looks_drawn_from(visits, mdp.start, np.zeros(6, dtype=int))

    def test_rewards_are_those_of_the_transitions(self):
        task = task_of(small_mdp(), steps=50, reports=True, again=True)
        run_for_long([task], [np.full((6, 2), 0.5)])
        row = row_of(task.mdp)
        paid = np.bincount(row, weights=task.count * task.mdp.outcome_reward, minlength=12)
        np.testing.assert_allclose(task.reward_sum, paid, atol=1e-9)
        squares = np.bincount(row, weights=task.count * task.mdp.outcome_reward**2, minlength=12)
        np.testing.assert_allclose(task.reward_square_sum, squares, atol=1e-9)
        assert task.largest == np.abs(task.mdp.outcome_reward[task.count > 0]).max()

    def test_noise_has_its_standard_deviation(self):
        rng = np.random.default_rng(0)
        mdp = small_mdp(reward_std=2.0)
        deviations, squares = [], []
        for _ in range(40):
            task = task_of(mdp, steps=50, reports=True, again=True)
            Rollout([task]).run_episode(rng, np.full(12, 0.5))
            row = row_of(mdp)
            expected = np.bincount(row, weights=task.count * mdp.outcome_reward, minlength=12)
            visits = np.bincount(row, weights=task.count, minlength=12)
            deviations.extend(((task.reward_sum - expected)[visits > 0] / np.sqrt(visits[visits > 0])).tolist())
            noise = task.reward_square_sum - np.bincount(row, weights=task.count * mdp.outcome_reward**2, minlength=12)
            squares.append(noise.sum() / visits.sum())  # the means of the rewards of pairs are no noise
        assert np.mean(squares) == pytest.approx(4.0, rel=0.15)
        assert np.std(deviations) == pytest.approx(2.0, rel=0.15)
        assert np.mean(deviations) == pytest.approx(0.0, abs=0.5)

    def test_nobody_goes_on_from_an_end_that_is_reported(self):
        info, untold = task_of(small_mdp(), steps=30, reports=True), task_of(small_mdp(), steps=30, reports=False)
        run_for_long([info, untold], [np.full((6, 2), 0.5)] * 2)
        of_terminal = row_of(info.mdp) // 2 == 5
        assert info.count[of_terminal].sum() == 0
        assert untold.count[of_terminal].sum() > 0
        z = Rollout([info, untold]).table()
        ended = z.n_terminated > 0
        mdp = z.pair_mdp[z.transition_row]
        np.testing.assert_array_equal(ended, (z.successor == 5) & (mdp == 0))
        np.testing.assert_array_equal(z.n_terminated[ended], z.transition_count[ended])
        assert ended.any()

    def test_an_episode_that_ended_goes_on_only_where_another_follows(self):
        once, again = (task_of(small_mdp(), steps=30, reports=True, again=again) for again in (False, True))
        run_for_long([once, again], [np.full((6, 2), 0.5)] * 2, 20)
        ends = Rollout([once]).table().n_terminated.sum()
        assert 0 < ends <= 20
        assert once.count.sum() < again.count.sum() == 20 * 30
        assert Rollout([again]).table().n_terminated.sum() > 20

    def test_episodes_are_counted(self):
        tasks = [task_of(small_mdp(), episodes_left=9, steps=5), task_of(small_mdp(), episodes_left=4, steps=7)]
        run_for_long(tasks, [np.full((6, 2), 0.5)] * 2, 3)
        assert [task.episodes_left for task in tasks] == [6, 1]

    def test_tables_are_those_of_each_task(self):
        tasks = [task_of(small_mdp(seed), steps=20, reports=True) for seed in range(3)]
        run_for_long(tasks, [np.full((6, 2), 0.5)] * 3, 5)
        together = Rollout(tasks).table()
        for i, task in enumerate(tasks):
            dense = np.zeros((12, 6))
            dense[row_of(task.mdp), task.mdp.transition.indices] = task.count
            ours = np.zeros((12, 6))
            mine = together.pair_mdp[together.transition_row] == i
            ours[together.pair[together.transition_row[mine]], together.successor[mine]] = together.transition_count[
                mine
            ]
            np.testing.assert_array_equal(ours, dense)
            visited = dense.sum(1) > 0
            np.testing.assert_allclose(together.n_visits[together.pair_mdp == i], dense.sum(1)[visited])
            np.testing.assert_array_equal(together.reward_sum[together.pair_mdp == i], task.reward_sum[visited])
            squares = together.reward_square_sum[together.pair_mdp == i]
            np.testing.assert_array_equal(squares, task.reward_square_sum[visited])
            assert together.reward_scale[i] == (task.largest if np.isinf(task.info.reward_high[0]) else max(
                abs(task.info.reward_low[0]), abs(task.info.reward_high[0])))  # fmt: skip

    @pytest.mark.parametrize("reports", [True, False])
    def test_covering_visits_every_pair_alike(self, reports):
        task = task_of(small_mdp(), reports=reports)
        cover(np.random.default_rng(0), task, 200.0)
        row = row_of(task.mdp)
        visits = np.bincount(row, weights=task.count, minlength=12)
        can_be = np.arange(12) < (10 if reports else 12)
        assert (visits[~can_be] == 0).all()
        assert np.abs(visits[can_be] - 200).max() < 6 * np.sqrt(200)
        assert looks_drawn_from(task.count, task.mdp.transition.data, row)
        for power, sums in ((1, task.reward_sum), (2, task.reward_square_sum)):
            paid = np.bincount(row, weights=task.count * task.mdp.outcome_reward**power, minlength=12)
            np.testing.assert_allclose(sums, paid, atol=1e-9)


class TestBeginning:
    def test_ranges_that_are_told_hold_the_rewards(self):
        mdp = small_mdp()
        tasks = [begin(np.random.default_rng(i), i, mdp, replace(CONFIG, range_known=0.5)) for i in range(60)]
        info = [task.info for task in tasks if np.isfinite(task.info.reward_high[0])]
        assert 10 < len(info) < 50
        assert all(t.reward_low[0] <= mdp.outcome_reward.min() for t in info)
        assert all(t.reward_high[0] >= mdp.outcome_reward.max() for t in info)
        assert all(task.info.discount[0] == mdp.discount for task in tasks)
        assert {task.behaviour for task in tasks} == {
            b for b, share in zip(BEHAVIOURS, CONFIG.behaviours, strict=True) if share
        }
        assert {task.reports for task in tasks} == {True, False}

    def test_coverage_comes_at_once(self):
        task = begin(np.random.default_rng(0), 0, small_mdp(), only("coverage", budget=(5.0, 5.0)))
        assert task.episodes_left == 1
        assert task.count.sum() == pytest.approx(5 * 12, rel=0.5)
        assert begin(np.random.default_rng(0), 0, small_mdp(), only("policy")).count.sum() == 0

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"slots": 0}, "slots"),
            ({"episodes": (0, 4)}, "episodes"),
            ({"steps": (5, 4)}, "steps"),
            ({"behaviours": (1.0, 0.0)}, "behaviours"),
            ({"behaviours": (0.0,) * len(BEHAVIOURS)}, "behaviours"),
        ],
    )
    def test_settings_that_make_no_sense_are_refused(self, changes, message):
        with pytest.raises(MdpfnError, match=message):
            replace(CONFIG, **changes)


def batch_of(n: int = 5, temperature: float = 0.25, **changes: object) -> TrainingBatch:
    pool = TaskPool(replace(CONFIG, slots=n, **changes), SAMPLER, [3, 0])
    training_batch = TrainingBatch(Rollout(pool.tasks), temperature)
    for _ in range(2):
        training_batch.rollout.run_episode(
            np.random.default_rng(0),
            training_batch.acting_policy(
                1 / training_batch.rollout.batch.n_actions[training_batch.rollout.batch.pair_mdp]
            ),
        )
        training_batch = TrainingBatch(training_batch.rollout, temperature)
    return training_batch


def per_task(training_batch: TrainingBatch, table: Floats) -> list[Floats]:
    parts = np.split(table, training_batch.rollout.pair_start[1:-1])
    return [part.reshape(task.mdp.reward.shape) for part, task in zip(parts, training_batch.rollout.tasks, strict=True)]


class TestReading:
    """The network is trained on tables as it reads them at use."""

    def task(self) -> Task:
        mdp = TabularMDP.from_dense(torus(6, 0.3), np.eye(36)[:, :4], discount=0.9)
        task = task_of(mdp, reports=True)
        cover(np.random.default_rng(0), task, 8.0)
        return task

    def test_tables_are_those_of_the_agent(self):
        certain = TabularMDP.from_dense(torus(6, 0.0), np.eye(36)[:, :4], discount=0.9)
        rollout = Rollout([self.task(), task_of(certain)])
        observed, read = rollout.table(), rollout.table_as_read()
        agent = Agent.from_pretrained()
        statistics = statistics_of(observed, 0)
        seen, _ = agent.plan(statistics, discount=0.9).planned_from
        for name in ("pair", "successor", "transition_count", "n_visits", "reward_sum"):
            np.testing.assert_allclose(getattr(read.part(0), name), getattr(seen, name), err_msg=name)
        assert read.part(0).n_visits.sum() > 2 * observed.part(0).n_visits.sum()
        assert len(read.part(1).pair) == len(observed.part(1).pair)

    def test_slip_that_was_not_believed_is_asked_for_later(self):
        task = self.task()
        task.refused = 0.5 * task.count.sum()
        assert Rollout([task]).table_as_read().n_visits.sum() == pytest.approx(task.count.sum())
        task.refused = 0.1 * task.count.sum()
        assert Rollout([task]).table_as_read().n_visits.sum() > 2 * task.count.sum()


class TestTrainingBatch:
    def test_targets_are_boltzmann_policies_of_the_optimal_values(self):
        training_batch = batch_of(temperature=0.3)
        for task, target in zip(
            training_batch.rollout.tasks, per_task(training_batch, training_batch.target), strict=True
        ):
            q = optimal_q(task.mdp)
            advantage = q - q.max(axis=1, keepdims=True)
            typical = -advantage[~task.mdp.terminal].mean()
            expected = np.exp(advantage / (0.3 * typical))
            np.testing.assert_allclose(target, expected / expected.sum(axis=1, keepdims=True), atol=1e-6)

    def test_scores_are_exact(self):
        training_batch = batch_of()
        best = np.concatenate([optimal_q(task.mdp).reshape(-1) for task in training_batch.rollout.tasks])
        assert training_batch.greedy_score(best) == pytest.approx(1, abs=1e-6)
        scores = []
        certain = training_batch.estimates.q_table(CERTAINTY_EQUIVALENT)
        visited = np.zeros(len(certain), dtype=bool)
        known = training_batch.estimates.model.table
        assert (known.n_states == training_batch.rollout.batch.n_states).all()
        visited[training_batch.rollout.pair_start[known.pair_mdp] + known.pair] = True
        tables = per_task(training_batch, certain), per_task(training_batch, visited)
        for task, q, tried in zip(training_batch.rollout.tasks, *tables, strict=True):
            q = np.where(tried | ~tried.any(axis=1, keepdims=True), q, -np.inf)
            policy = greedy_among_ties(q.reshape(-1), task.mdp.first_pair).reshape(q.shape)
            scores.append(np.clip(Scorer(task.mdp)(policy), 0, 1))
        assert training_batch.certainty_equivalent_score() == pytest.approx(np.mean(scores), abs=1e-6)

    def test_the_score_of_a_network_is_that_of_what_it_exploits_by(self):
        training_batch = batch_of(n=12, behaviours=only("uniform").behaviours)
        logits = np.random.default_rng(0).normal(size=len(training_batch.q))
        scores, n_unknown = [], 0
        for task, mine in zip(training_batch.rollout.tasks, per_task(training_batch, logits), strict=True):
            p, n_actions = task.mdp.transition, task.mdp.n_actions
            state = np.repeat(np.arange(p.shape[0]) // n_actions, np.diff(p.indptr))
            unknown = np.bincount(state, weights=task.count) == 0
            if task.reports:
                unknown[p.indices[task.count > 0]] &= ~task.mdp.terminal[p.indices[task.count > 0]]
            best = np.eye(n_actions)[mine.argmax(axis=1)]
            mixed = softmax(mine / MIXING_TEMPERATURE)  # on average over how its states are numbered
            scores.append(np.clip(Scorer(task.mdp)(np.where(unknown[:, None], mixed, best)), 0, 1))
            n_unknown += unknown.sum()
        assert n_unknown > 0
        assert training_batch.exploiting_score(logits) == pytest.approx(np.mean(scores), abs=1e-6)

    def test_nobody_acts_out_of_line(self):
        """Each behaviour does what its name says, and a little at random."""
        for kind in ("uniform", "policy"):
            training_batch = batch_of(behaviours=only(kind).behaviours)
            batch = training_batch.rollout.batch
            uniform = 1 / batch.n_actions[batch.pair_mdp]
            policy = np.zeros(len(uniform))
            policy[batch.first_pair] = 1.0
            expected = uniform if kind == "uniform" else 0.95 * policy + 0.05 * uniform
            np.testing.assert_allclose(training_batch.acting_policy(policy), expected)

    def test_earning_is_acting_as_the_shipped_explorer_would(self):
        """One task of a batch acts by the plan of the explorer, given its table alone and the age of the task."""
        pool = TaskPool(only("earning", slots=4, episodes=(6, 6), steps=(30, 30)), SAMPLER, [0, 3])
        rng = np.random.default_rng(0)
        for _ in range(3):
            training_batch = pool.sample(rng, 4, 0.25)
            before = [task.count.sum() for task in training_batch.rollout.tasks]
            pool.advance(rng, training_batch, np.zeros(len(training_batch.q)))
            assert all(t.count.sum() > n for t, n in zip(training_batch.rollout.tasks, before, strict=True))
        training_batch = pool.sample(rng, 4, 0.25)
        policy = training_batch.acting_policy(np.zeros(len(training_batch.q)))
        for i, acts in enumerate(per_task(training_batch, policy)):
            task = training_batch.rollout.tasks[i]
            alone, part = Rollout([task]).table(), training_batch.table.part(i)
            for name in PairTable.__dataclass_fields__:
                np.testing.assert_array_equal(getattr(part, name), getattr(alone, name), name)
            explorer = EarningExplorer()
            for _ in range(2):
                explorer.plan(alone, task.info, Clock(task.episodes - task.episodes_left, task.episodes))
            for state in range(task.mdp.n_states):
                assert acts[state, explorer.action(state)] > 0.1  # what it would do first is among what is done
            np.testing.assert_allclose(acts.sum(axis=1), 1)

    def test_gradients_reach_every_output_and_lower_the_loss(self):
        torch.manual_seed(0)
        network = PolicyNetwork(NetworkConfig(8, 2, 2, dropout=0.0, inputs="planned", quantiles=(0.1, 0.5, 0.9)))
        training_batch = batch_of()
        optimizer = torch.optim.Adam(network.parameters(), 1e-2)
        losses = []
        for _ in range(25):
            loss, parts, policy = training_batch.loss(
                network(tensors_of(training_batch.tokens, network)), (0.1, 0.5, 0.9), ObjectiveConfig()
            )
            optimizer.zero_grad()
            loss.backward()
            assert all(p.grad is not None for p in network.parameters())
            optimizer.step()
            losses.append((float(loss.detach()), parts["kl"], parts["pinball"], -parts["score"]))
        assert all(last < first for first, last in zip(losses[0], losses[-1], strict=True))
        np.testing.assert_allclose(np.add.reduceat(policy, training_batch.rollout.batch.first_pair), 1, atol=1e-5)

    def test_terminal_states_do_not_count(self):
        training_batch = batch_of(8, unreported=0.0)
        terminal = np.concatenate([task.mdp.terminal for task in training_batch.rollout.tasks])[training_batch.state]
        assert terminal.any()
        logits = torch.zeros(len(training_batch.q), dtype=torch.float64)

        def loss_at(values: torch.Tensor, quantiles: torch.Tensor) -> float:
            return float(training_batch.loss(Answer(values, quantiles), (0.5,), ObjectiveConfig())[0])

        quantiles = torch.zeros(len(training_batch.q), 1, dtype=torch.float64)
        other = torch.randn(len(training_batch.q), dtype=torch.float64)
        at_terminal = torch.from_numpy(terminal)
        usual = loss_at(logits, quantiles)
        assert loss_at(
            torch.where(at_terminal, other, logits), torch.where(at_terminal, other, 0.0)[:, None]
        ) == pytest.approx(usual)
        assert loss_at(torch.where(at_terminal, logits, other), quantiles) != pytest.approx(usual)


@settings(max_examples=60, deadline=None)
@given(mdps())
def test_exact_solutions_equal_value_iteration(mdp: TabularMDP) -> None:
    solution = solve(mdp)
    np.testing.assert_allclose(solution.q, optimal_q(mdp, 1e-10), rtol=0, atol=1e-8)
    np.testing.assert_allclose(solution.transition, mdp.discount * mdp.dense_transition)
    scorer = Scorer(mdp)
    assert solution.optimal_value == pytest.approx(scorer.optimal_value, abs=1e-8)
    assert solution.random_value == pytest.approx(scorer.random_value, abs=1e-8)


def test_exact_solutions_with_a_discount_close_to_one() -> None:
    mdp = replace(small_mdp(), discount=1 - 1e-6)
    solution = solve(mdp)
    value = policy_value(mdp, solution.q.argmax(axis=1))
    np.testing.assert_allclose(solution.q.max(axis=1), value, rtol=1e-6)
    residual = mdp.reward + mdp.discount * mdp.dense_transition @ solution.q.max(axis=1) - solution.q
    assert np.abs(residual).max() < 1e-6 * np.abs(value).max()


@settings(max_examples=40, deadline=None)
@given(mdps())
def test_return_gradients_are_those_of_the_score(mdp: TabularMDP) -> None:
    rng = np.random.default_rng(0)
    solution = solve(mdp)
    assume(solution.gap > 1e-3)  # there is something to decide
    policy = rng.dirichlet(np.ones(mdp.n_actions), mdp.n_states)
    gradient, score = return_gradient(solution, mdp.reward, mdp.start, policy)

    def score_of(candidate: Floats) -> float:
        return float((mdp.start @ policy_value(mdp, candidate) - solution.random_value) / solution.gap)

    assert score == pytest.approx(score_of(policy), rel=1e-6, abs=1e-6)
    assert np.abs(gradient).max(axis=1).sum() <= LARGEST_PULL * (1 + 1e-9)
    direction = rng.normal(size=policy.shape)
    direction -= direction.mean(axis=1, keepdims=True)  # rows still sum to 1
    step = 1e-5
    change = (score_of(policy + step * direction) - score_of(policy - step * direction)) / (2 * step)
    along = float((gradient * direction).sum())
    if np.abs(gradient).max(axis=1).sum() < LARGEST_PULL * (1 - 1e-9):
        assert along == pytest.approx(change, rel=1e-4, abs=1e-5)
    else:  # shortened, in the same direction
        assert along * change >= 0
        assert abs(along) <= abs(change) * (1 + 1e-4) + 1e-5


def test_the_quantile_loss_is_least_at_the_true_quantiles() -> None:
    levels = (0.1, 0.5, 0.8)
    sample = torch.from_numpy(np.random.default_rng(0).exponential(size=2001))
    truth = torch.quantile(sample, torch.tensor(levels, dtype=torch.float64))

    def loss(quantiles: torch.Tensor) -> float:
        return float(quantile_loss(quantiles.expand(len(sample), -1), sample, levels).mean())

    for i in range(len(levels)):
        for by in (-0.2, -0.03, 0.03, 0.2):
            moved = truth.clone()
            moved[i] += by
            assert loss(moved) > loss(truth)
    assert loss(sample.new_zeros(3)) == pytest.approx(float(sum(levels) * sample.mean()))


class TestPool:
    def step(self, pool: TaskPool, number: int) -> None:
        rng = np.random.default_rng([9, number])
        training_batch = pool.sample(rng, 4, 0.25)
        batch = training_batch.rollout.batch
        pool.advance(rng, training_batch, 1 / batch.n_actions[batch.pair_mdp])

    def test_a_restored_pool_goes_on_bit_by_bit(self):
        pool, other = (TaskPool(CONFIG, SAMPLER, [3, 0]) for _ in range(2))
        for number in range(3):
            self.step(pool, number)
        other.restore({name: tensor.clone() for name, tensor in pool.state().items()})
        assert any(task.reward_square_sum.any() for task in pool.tasks if task.behaviour != "coverage")
        for number in range(3, 10):
            ours, theirs = pool.state(), other.state()
            assert all(torch.equal(ours[name], theirs[name]) for name in ours)
            self.step(pool, number)
            self.step(other, number)
        assert pool.n_begun > CONFIG.slots  # some tasks ended and others began meanwhile
        for task, twin in zip(pool.tasks, other.tasks, strict=True):
            assert (task.behaviour, task.reports, task.again, task.steps) == (
                twin.behaviour, twin.reports, twin.again, twin.steps
            )  # fmt: skip
            np.testing.assert_array_equal(task.mdp.reward, twin.mdp.reward)

    def test_what_was_saved_does_not_change_afterwards(self):
        pool = TaskPool(CONFIG, SAMPLER, [3, 0])
        saved = pool.state()
        before = {name: tensor.clone() for name, tensor in saved.items()}
        other = TaskPool(CONFIG, SAMPLER, [3, 0])
        other.restore(saved)
        for number in range(3):
            self.step(other, number)
        assert all(torch.equal(saved[name], before[name]) for name in saved)

    def test_tasks_have_all_ages_and_are_always_as_many(self):
        pool = TaskPool(only("uniform", slots=30, episodes=(8, 8)), SAMPLER, [0, 0])
        assert len({task.episodes_left for task in pool.tasks}) > 4
        for number in range(5):
            self.step(pool, number)
            assert len(pool.tasks) == 30
            assert all(task.episodes_left > 0 for task in pool.tasks)
        assert len({task.number for task in pool.tasks}) == 30

    def test_processes_have_different_tasks(self):
        one, other = (TaskPool(CONFIG, SAMPLER, [3, rank]).state() for rank in (0, 1))
        assert one["count"].shape != other["count"].shape or not torch.equal(one["count"], other["count"])


def test_validation_is_always_the_same() -> None:
    torch.manual_seed(0)
    network = PolicyNetwork(NetworkConfig(8, 2, 1, dropout=0.3, inputs="planned", quantiles=(0.5,))).train()
    found = [
        validate_batches(network, held_out_batches(CONFIG, SAMPLER, [0, 7], 5, 0.25), ObjectiveConfig())
        for _ in range(2)
    ]
    assert found[0] == found[1]
    assert network.training
    assert found[0]["validation_greedy_score"] == pytest.approx(found[0]["certain_score"], abs=0.02)
    assert set(found[0]) == {
        "validation_loss", "validation_kl", "validation_score", "validation_pinball", "validation_greedy_score",
        "certain_score",
    }  # fmt: skip
    for training_batch in held_out_batches(CONFIG, SAMPLER, [0, 7], 5, 0.25):
        assert all(task.episodes_left <= 1 and task.behaviour != "policy" for task in training_batch.rollout.tasks)
