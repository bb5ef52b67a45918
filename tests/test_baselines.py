"""Baselines: they learn, they plan what their papers say, and they cannot see the truth."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mdpfn.baselines import (
    BASELINES,
    OFFLINE_BASELINES,
    PSRL,
    UCBH,
    UCBVI,
    VILCB,
    BehaviourCloning,
    CertaintyEquivalence,
    QLearning,
    RMax,
)
from mdpfn.bench.environments import ENVIRONMENTS, Simulator
from mdpfn.bench.environments.frozen_lake import frozen_lake
from mdpfn.bench.environments.gridworld import gridworld
from mdpfn.bench.environments.machine_replacement import machine_replacement
from mdpfn.evidence import Statistics, Transition
from mdpfn.model import policy_iteration
from mdpfn.model.exact import Scorer, optimal_q
from mdpfn.model.mdp import TabularMDP
from mdpfn.online.learner import Learner
from mdpfn.planners.problem_info import ProblemInfo, RewardRange

LEARNERS = sorted(set(BASELINES) - {"uniform"})


def made(
    kind: Callable[..., Learner], n_states: int, n_actions: int, reward_range: RewardRange | None = None, **options: Any
) -> Any:
    """A learner of nothing yet, at a discount of 0.9."""
    info = ProblemInfo.of(0.9, reward_range)
    return kind(Statistics(n_states, n_actions), info, np.random.default_rng(0), **options)


def sized(
    kind: Callable[..., Learner],
    mdp: TabularMDP,
    seed: int = 0,
    *,
    rng: np.random.Generator | None = None,
    reward_range: RewardRange | None = None,
    statistics: Statistics | None = None,
    **options: Any,
) -> Any:
    """A learner that knows the sizes of an MDP, and what was logged of it."""
    evidence = Statistics(mdp.n_states, mdp.n_actions) if statistics is None else statistics
    rng = np.random.default_rng([seed, 1]) if rng is None else rng
    return kind(evidence, ProblemInfo.of(mdp.discount, reward_range), rng, **options)


def live(
    agent: Learner, simulator: Simulator, n_episodes: int, horizon: int = 50, *, reward_factor: float = 1.0,
    terminal_ends: bool = False,
) -> list[int]:  # fmt: skip
    """Episodes as the paper runs them, through terminal states to the end; returns the actions taken."""
    actions = []
    for _ in range(n_episodes):
        state = simulator.reset()
        for step in range(horizon):
            action = agent.act(state)
            reward, next_state, terminal = simulator.step(action)
            terminated = terminal and terminal_ends
            agent.observe(
                Transition(state, action, reward_factor * reward, next_state, terminated, step == horizon - 1)
            )
            actions.append(action)
            state = next_state
            if terminated:
                break
    return actions


def logged(mdp: TabularMDP, n_transitions: int, seed: int = 0) -> Statistics:
    """What a uniform-random walk that restarts after terminal states observes."""
    rng = np.random.default_rng(seed)
    simulator, statistics = Simulator(mdp, rng), Statistics(mdp.n_states, mdp.n_actions)
    state = simulator.reset()
    for _ in range(n_transitions):
        action = int(rng.integers(mdp.n_actions))
        reward, next_state, terminated = simulator.step(action)
        statistics.add(Transition(state, action, reward, next_state, terminated))
        state = simulator.reset() if terminated else next_state
    return statistics


def ample(mdp: TabularMDP, n_visits: int = 100_000) -> Statistics:
    """Counts in proportion to the true probabilities."""
    counts = np.round(mdp.dense_transition * n_visits)
    terminal = mdp.terminal
    counts[terminal] = 0
    return Statistics.from_counts(counts, mdp.reward * counts.sum(axis=2), terminal)


# Learning


@pytest.mark.parametrize("name", LEARNERS)
def test_every_baseline_learns_an_easy_problem(name: str) -> None:
    mdp = machine_replacement(6)
    agent = sized(BASELINES[name], mdp)
    live(agent, Simulator(mdp, np.random.default_rng(0)), 64)
    assert Scorer(mdp)(agent.plan()) > 0.8


def test_uniform_scores_zero() -> None:
    mdp = gridworld(3)
    agent = sized(BASELINES["uniform"], mdp)
    live(agent, Simulator(mdp, np.random.default_rng(0)), 4)
    assert Scorer(mdp)(agent.plan()) == pytest.approx(0)
    assert {agent.act(0) for _ in range(100)} == {0, 1, 2, 3}


@pytest.mark.parametrize(("name", "n_episodes"), [("ucbvi", 40), ("psrl", 40), ("r-max", 10), ("q-learning", 800)])
def test_gridworld_is_solved(name: str, n_episodes: int) -> None:
    mdp = gridworld(3)
    agent = sized(BASELINES[name], mdp)
    live(agent, Simulator(mdp, np.random.default_rng(0)), n_episodes)
    assert Scorer(mdp)(agent.plan()) >= 0.95


def test_r_max_explores_deeply_within_episodes() -> None:
    environment = ENVIRONMENTS["dyna-maze"]
    mdp = environment.build()
    agent = sized(RMax, mdp)
    live(agent, Simulator(mdp, np.random.default_rng(0)), 8, environment.horizon, terminal_ends=True)
    assert Scorer(mdp)(agent.plan()) == pytest.approx(1)


@pytest.mark.parametrize("name", sorted(BASELINES))
def test_the_unit_of_rewards_does_not_matter(name: str) -> None:
    mdp = frozen_lake()
    actions = [
        live(sized(BASELINES[name], mdp), Simulator(mdp, np.random.default_rng(0)), 12, reward_factor=factor)
        for factor in (1.0, 8.0)
    ]
    assert actions[0] == actions[1]


@pytest.mark.parametrize("name", sorted({**BASELINES, **OFFLINE_BASELINES}))
def test_plans_are_policies_even_before_any_observation(name: str) -> None:
    mdp = gridworld(3)
    agent = sized({**BASELINES, **OFFLINE_BASELINES}[name], mdp)
    for _ in range(2):
        policy = agent.plan()
        assert policy.shape == (9, 4)
        assert policy.min() >= 0
        assert policy.sum(axis=1) == pytest.approx(1)
        live(agent, Simulator(mdp, np.random.default_rng(0)), 2, 10)


@pytest.mark.parametrize("name", sorted(BASELINES))
def test_lives_repeat_with_their_seed(name: str) -> None:
    mdp = frozen_lake()
    first, again, other = (
        live(sized(BASELINES[name], mdp, seed), Simulator(mdp, np.random.default_rng(seed)), 3) for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other


# Nothing reaches the truth


def reachable(thing: object, seen: dict[int, object]) -> dict[int, object]:
    """Everything that can be got at from `thing` through attributes and containers."""
    if id(thing) in seen or isinstance(thing, (str, bytes, int, float, type, types.ModuleType)):
        return seen
    seen[id(thing)] = thing
    parts: list[object] = []
    if isinstance(thing, dict):
        parts = [*thing.keys(), *thing.values()]
    elif isinstance(thing, (list, tuple, set)):
        parts = list(thing)
    if hasattr(thing, "__dict__"):
        parts += list(vars(thing).values())
    for part in parts:
        reachable(part, seen)
    return seen


@pytest.mark.parametrize("name", sorted({**BASELINES, **OFFLINE_BASELINES}))
def test_no_baseline_holds_the_mdp(name: str) -> None:
    mdp = frozen_lake()
    agent = sized({**BASELINES, **OFFLINE_BASELINES}[name], mdp)
    simulator = Simulator(mdp, np.random.default_rng(0))
    live(agent, simulator, 2, 10)
    agent.plan()
    assert not any(isinstance(thing, (TabularMDP, Simulator)) for thing in reachable(agent, {}).values())
    assert any(isinstance(thing, Simulator) for thing in reachable([simulator], {}).values())


# Planning, against plain reimplementations


def one_sweep(
    statistics: Statistics, discount: float, value: list[float], backup: Callable[[float, float, float], float]
) -> list[list[float]]:
    """Q of every pair on its own, from `backup`(N, r̂, γ Σ P̂ V); nothing is known of an unvisited pair but N = 0."""
    counts, sums = statistics.dense_counts()
    q = []
    for state, row in enumerate(counts):
        q.append([])
        for action, successors in enumerate(row):
            n = sum(successors)
            mean = sums[state, action] / n if n else 0.0
            future = discount * sum(m / n * v for m, v in zip(successors, value, strict=True)) if n else 0.0
            q[-1].append(backup(n, mean, future))
    return q


def naive_ucbvi(statistics: Statistics, discount: float, c: float, largest: float, episode: int) -> np.ndarray:
    """Upper confidence bounds as B.3 states them, with the paper's 80 sweeps."""
    top = largest / (1 - discount)
    log_term = math.log(statistics.n_states * statistics.n_actions * episode + 1)

    def backup(n: float, mean: float, future: float) -> float:
        return min(mean + c * math.sqrt(log_term / n) + future, top) if n else top

    value = [0.0] * statistics.n_states
    for _ in range(80):
        q = one_sweep(statistics, discount, value, backup)
        value = [max(row) for row in q]
    return np.array(q)


@pytest.mark.parametrize("n_transitions", [1, 30, 400])
def test_ucbvi_plans_like_the_papers_baseline(n_transitions: int) -> None:
    mdp = gridworld(3)
    agent = sized(UCBVI, mdp, reward_range=(-1, 9), bonus=1.0)
    simulator = Simulator(mdp, np.random.default_rng(1))
    walker, state = np.random.default_rng(2), simulator.reset()
    for _ in range(n_transitions):
        action = int(walker.integers(4))
        reward, next_state, _ = simulator.step(action)
        agent.observe(Transition(state, action, reward, next_state))
        state = next_state
    agent.episode = 5
    expected = naive_ucbvi(agent.evidence, mdp.discount, 1.0, 9.0, episode=5)
    np.testing.assert_allclose(agent.optimistic_q(), expected, rtol=1e-4)


def naive_vi_lcb(statistics: Statistics, discount: float, c: float) -> np.ndarray:
    """Lower confidence bounds as B.4 states them, swept until they no longer move."""
    floor = -statistics.reward_scale / (1 - discount)
    log_term = math.log(statistics.n_states * statistics.n_actions / 0.1)

    def backup(n: float, mean: float, future: float) -> float:
        return min(max(mean - c * math.sqrt(log_term / n) + future, floor), -floor) if n else floor

    value, moved = [0.0] * statistics.n_states, 1.0
    while moved > 1e-8:
        q = one_sweep(statistics, discount, value, backup)
        for state in statistics.terminal:
            q[state] = [0.0] * statistics.n_actions
        moved = max(abs(max(row) - old) for row, old in zip(q, value, strict=True))
        value = [max(row) for row in q]
    return np.array(q)


@pytest.mark.parametrize("penalty", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("n_transitions", [8, 128, 2048])
def test_vi_lcb_plans_as_the_paper_writes(penalty: float, n_transitions: int) -> None:
    mdp = frozen_lake()
    statistics = logged(mdp, n_transitions)
    agent = sized(VILCB, mdp, penalty=penalty, statistics=statistics)
    np.testing.assert_allclose(agent.empirical_q(), naive_vi_lcb(statistics, mdp.discount, penalty), atol=1e-4)


def test_q_learning_follows_its_equation_step_by_step() -> None:
    mdp = frozen_lake()
    agent = sized(QLearning, mdp, reward_range=(-0.8, 0.8), epsilon=0.5)
    simulator, walker = Simulator(mdp, np.random.default_rng(0)), np.random.default_rng(1)
    expected = {(state, action): 0.8 / 0.05 for state in range(16) for action in range(4)}
    for _ in range(40):
        state = simulator.reset()
        for _ in range(50):
            action = int(walker.integers(4))
            reward, next_state, _ = simulator.step(action)
            best_next = max(expected[next_state, following] for following in range(4))
            expected[state, action] = 0.9 * expected[state, action] + 0.1 * (reward + 0.95 * best_next)
            agent.observe(Transition(state, action, reward, next_state))
            state = next_state
    np.testing.assert_allclose(np.array(agent.q).reshape(-1), list(expected.values()))


def test_q_learning_is_greedy_but_for_epsilon() -> None:
    agent = made(QLearning, 1, 4, epsilon=0.2)
    agent.q = [[0.0, 2.0, 2.0, 1.0]]
    frequency = np.bincount([agent.act(0) for _ in range(5000)], minlength=4) / 5000
    assert frequency == pytest.approx([0.05, 0.85, 0.05, 0.05], abs=0.025)  # the first of the best


def test_ucbvi_converges_on_gridworld_when_the_paper_says() -> None:
    mdp, rng = gridworld(3), np.random.default_rng(0)
    agent, score = sized(UCBVI, mdp, rng=rng, reward_range=(-1, 9), bonus=1.0), Scorer(mdp)
    simulator = Simulator(mdp, rng)
    solved = []
    for _ in range(24):
        solved.append(score(agent.plan()) >= 0.95)
        live(agent, simulator, 1)
    assert solved == [False] * 15 + [True] * 9


# Single baselines


def test_ucbvi_values_nothing_above_what_rewards_allow() -> None:
    mdp = gridworld(3)
    agent = sized(UCBVI, mdp, reward_range=(-1, 9))
    live(agent, Simulator(mdp, np.random.default_rng(0)), 3)
    q = agent.optimistic_q()
    assert q.max() <= 9 / (1 - mdp.discount) + 1e-9
    unvisited = agent.evidence.dense_counts()[0].sum(axis=2) == 0
    assert unvisited.any()
    assert q[unvisited] == pytest.approx(9 / (1 - mdp.discount))


@pytest.mark.parametrize("kind", [QLearning, UCBH])
def test_q_learning_starts_optimistic_in_units_of_the_rewards_seen(kind: type[QLearning]) -> None:
    agent = made(kind, 3, 2)
    assert agent.q[0] == pytest.approx([10, 10])
    agent.observe(Transition(0, 0, 0.0, 1))
    share = agent.q[0][0] / agent.q[0][1]
    agent.observe(Transition(1, 0, 4.0, 2))
    assert agent.q[2] == pytest.approx([40, 40])
    assert agent.q[0] == pytest.approx([40 * share, 40])
    learned = agent.q[1][0]
    agent.observe(Transition(2, 0, -8.0, 2))
    assert agent.q[0][1] == pytest.approx(80)
    assert agent.q[1][0] == learned


def test_q_learning_expects_nothing_after_a_termination() -> None:
    agent = made(QLearning, 2, 1, reward_range=(0, 1), learning_rate=1.0)
    agent.observe(Transition(0, 0, 0.5, 1, terminated=True))
    assert agent.q[0][0] == 0.5


def test_psrl_samples_its_posterior() -> None:
    agent = made(PSRL, 4, 1, reward_range=(0, 1))
    for successor in (1, 1, 2):
        agent.observe(Transition(0, 0, 1.0, successor))
    rows = np.mean([agent._sample_transition(agent.evidence.table()).toarray() for _ in range(1500)], axis=0)
    prior = 1 / 4
    assert rows[0] == pytest.approx(np.array([prior, 2 + prior, 1 + prior, prior]) / 4, abs=0.03)
    assert rows[3] == pytest.approx(np.full(4, prior), abs=0.04)


def test_psrl_is_surer_of_rewards_seen_often() -> None:
    agent = made(PSRL, 2, 1, reward_range=(0, 1))

    def spread() -> np.ndarray:
        samples = np.array([agent._sample_reward(agent.evidence.table()) for _ in range(1000)])
        return np.subtract(*np.percentile(samples, [75, 25], axis=0))

    for _ in range(20):
        agent.observe(Transition(0, 0, 0.7, 1))
    surer, unsure = spread()
    assert surer < 0.05 * unsure


@pytest.mark.parametrize("name", ["vi-lcb", "certainty-equivalence"])
def test_offline_baselines_solve_an_mdp_they_have_seen_enough_of(name: str) -> None:
    mdp = frozen_lake()
    agent = sized(OFFLINE_BASELINES[name], mdp, statistics=ample(mdp))
    assert Scorer(mdp)(agent.plan()) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(("dense_entries", "within"), [(0, 0.02), (20_000, 1e-3)])
def test_certainty_equivalence_has_the_optimal_values_in_the_limit(
    dense_entries: int, within: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Solved, or swept to a change of 10⁻³, after which a discount of 0.95 leaves at most 0.02."""
    monkeypatch.setattr(policy_iteration, "DENSE_ENTRIES", dense_entries)
    mdp = frozen_lake()
    agent = sized(CertaintyEquivalence, mdp, statistics=ample(mdp))
    going = ~mdp.terminal
    in_units = optimal_q(mdp)[going] / agent.reward_scale
    np.testing.assert_allclose(agent.empirical_q()[going], in_units, atol=within)


def test_certainty_equivalence_takes_no_action_of_which_it_knows_nothing() -> None:
    """In state 0 one action was tried, which loses; in state 1 both, and in state 2 nothing."""
    data = Statistics.from_transitions([0, 1, 1], [0, 0, 1], [-1.0, 1.0, 0.5], [1, 1, 1], n_states=3, n_actions=2)
    q = CertaintyEquivalence(data, ProblemInfo.of(0.9), np.random.default_rng(0)).empirical_q()
    assert q[0].argmax() == 0
    assert np.isneginf(q[0, 1])
    np.testing.assert_allclose(q[1], [10, 0.5 + 9])
    assert np.ptp(q[2]) == 0


def test_behaviour_cloning_does_what_was_done() -> None:
    agent = made(BehaviourCloning, 3, 2)
    for action in (0, 0, 0, 1):
        agent.observe(Transition(1, action, 0.0, 2))
    assert agent.plan().tolist() == [[0.5, 0.5], [0.75, 0.25], [0.5, 0.5]]
    assert np.mean([agent.act(1) for _ in range(2000)]) == pytest.approx(0.25, abs=0.04)
    agent.observe(Transition(1, 1, 0.0, 2))
    assert agent.plan()[1].tolist() == [0.6, 0.4]
