"""Exploration that earns: the rule against its equations, what it finds, when it plans again and when it stops."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from mdpfn import Agent
from mdpfn.bench.environments import ENVIRONMENTS, Simulator, TabularEnv
from mdpfn.errors import MdpfnError
from mdpfn.evidence import PairTable, Statistics, Transition
from mdpfn.exploration.clock import Clock
from mdpfn.exploration.earning import EarningConfig, EarningExplorer
from mdpfn.exploration.held import held_policy
from mdpfn.exploration.undoing import undone
from mdpfn.model.exact import Scorer, finite_horizon_value
from mdpfn.model.mdp import TabularMDP
from mdpfn.network.planning import planner_outputs
from mdpfn.online.in_context import InContextLearner
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
    return InContextLearner(
        evidence, info, rng, planner=planner, **{"exploration": "directed", "acting_temperature": 1.0, **options}
    )


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


def history(rng: np.random.Generator, n_states: int = 7, n_actions: int = 3, n: int = 60) -> Statistics:
    """Random transitions, some noisy, some terminal."""
    statistics = Statistics(n_states, n_actions)
    for _ in range(n):
        state, action = int(rng.integers(n_states - 2)), int(rng.integers(n_actions))
        following = int((state + action + (rng.random() < 0.2)) % n_states)
        reward = float(action == 1) + (0.1 * rng.normal() if state == 2 else 0.0)
        statistics.add(Transition(state, action, reward, following, terminated=following == n_states - 1))
    return statistics


def undone_by_loops(p: Any, tried: Any) -> Any:
    """(S, A) how surely an action leads back, for P (S, A, S): the definition, one move at a time."""
    n_actions = tried.shape[1]
    taken_back, chances, surest = np.zeros((n_actions,) * 2), np.zeros((n_actions,) * 2), np.zeros(tried.shape)
    moves = [(s, a, t) for s, a, t in zip(*np.nonzero(p), strict=True) if s != t and tried[t].any()]
    for s, a, t in moves:
        taken_back[a] += p[s, a, t] * p[t, :, s]
        chances[a] += p[s, a, t] * tried[t]
    for s, a, t in moves:
        surest[t] = np.maximum(surest[t], p[s, a, t] * (taken_back / (chances + 1))[a])
    return surest


def oracle(statistics: Statistics, discount: float, budget: int, config: EarningConfig) -> tuple[Any, float]:
    """X (S, A) and the price at the start of a life, straight from the equations, by many sweeps over dense tables."""
    n_states, n_actions = statistics.n_states, statistics.n_actions
    counts, sums = statistics.dense_counts()
    z, n = statistics.table(), counts.sum(-1)
    ends = np.zeros_like(counts)
    ends.reshape(-1, n_states)[z.pair[z.transition_row], z.successor] = z.n_terminated
    squares = np.zeros(n_states * n_actions)
    squares[z.pair] = z.reward_square_sum
    tried, known = n > 0, (n > 0).any(axis=1)
    terminal = z.terminal_mask() & ~known
    p, r = (counts - ends) / np.maximum(n, 1)[..., None], sums / np.maximum(n, 1)
    value, loss, spread = np.zeros(n_states), np.zeros(n_actions), 0.0
    for _ in range(4000):
        mean = value[known].mean()
        value = np.where(known, value, np.where(terminal, 0.0, mean))
        q = r + discount * p @ value
        value = np.where(known, np.where(tried, q, 0.0 - loss - config.untried_spreads * spread).max(axis=1), value)
    value = np.where(known, value, np.where(terminal, 0.0, value[known].mean()))
    q = r + discount * p @ value
    loss = np.where(tried, value[:, None] - q, 0.0).sum(axis=0) / (tried.sum(axis=0) + 1)
    variance = squares.reshape(n.shape) / np.maximum(n, 1) - r**2
    noisy = ((counts > 0).sum(-1) > 1) | (variance > 1e-9 * (variance + r**2))
    seen = known | (counts.sum(axis=(0, 1)) > 0)
    unseen = 1 - seen.mean()
    paid = tried & (r != 0)
    largest = max(r[tried].max(), np.average(np.abs(r[paid]), weights=n[paid]))
    unit = max(largest, config.usual_reward)
    horizon = 1 / (1 - discount)
    attainable = min(max(value[known].max() / r[tried].max(), 1.0), horizon)  # in units of the largest reward
    price = config.price * (budget / 64) ** config.price_growth * unit * np.sqrt(horizon * attainable)
    suspicion = config.suspicion * noisy[n >= 2].mean()
    visits = (config.certain_visits + suspicion) * (config.undiscovered_doubt if unseen else 1.0)
    tau = np.where(noisy, config.noisy_visits, visits)
    doubt = 1 / (1 + (n / tau) ** config.doubt_exponent)
    shares = np.where(known[None, None], counts / np.maximum(n, 1)[..., None], 0.0)
    untried = (1 - config.leads_back * undone_by_loops(shares, tried)) * price**2 / (price + loss)
    extra = np.zeros(n_states)
    for _ in range(4000):
        going_on = -(value[:, None] - q) + config.curiosity * p @ extra
        x = np.where(tried, doubt * price + (1 - doubt) * going_on, untried)
        extra = np.where(known, np.maximum(x.max(axis=1), 0), np.where(terminal, 0.0, price))
    x[:, 0] += config.straight_on * price * ~tried[:, 0]  # action 0 counts as taken last
    return x, price


class TestTheRule:
    @pytest.mark.parametrize("seed", range(6))
    def test_it_takes_what_the_equations_say_is_best(self, seed):
        rng = np.random.default_rng(seed)
        statistics, discount, config = history(rng), 0.9, EarningConfig()
        clock = Clock(budget=32)
        x, price = oracle(statistics, discount, 32, config)
        explorer = EarningExplorer()
        table = statistics.table()
        explorer.plan(table, ProblemInfo.of(discount), clock)
        chosen = np.array([explorer.action(state) for state in range(statistics.n_states)])
        known = np.unique(table.state)
        of_chosen = x[known, chosen[known]]
        assert explorer.carried.scalars[2] == pytest.approx(price)
        assert (of_chosen >= x[known].max(axis=1) - 0.03 * price).all()

    def test_where_nothing_can_be_gained_it_exploits(self):
        statistics = known_fully()
        explorer = EarningExplorer()
        explorer.plan(statistics.table(), ProblemInfo.of(0.9), Clock(budget=64))
        assert [explorer.action(state) for state in range(2)] == [1, 1]

    def test_the_price_falls_as_the_budget_is_spent(self):
        """Action 1 of state 0 was never tried; trying it costs a reward of 1 per step for ever."""
        statistics = Statistics.from_transitions([0] * 9, [0] * 9, [1.0] * 9, [0] * 9, n_states=1, n_actions=2)
        info, explorer = ProblemInfo.of(0.5), EarningExplorer()
        actions, prices = [], []
        for episode in range(64):
            explorer.plan(statistics.table(), info, Clock(episode, budget=64))
            actions.append(explorer.action(0))
            prices.append(float(explorer.carried.scalars[2]))
        assert (np.diff(prices) < 0).all()
        assert actions == sorted(actions, reverse=True)  # first it tries, later it does not

    def test_only_the_final_policy_counts(self):
        table, info = history(np.random.default_rng(0)).table(), ProblemInfo.of(0.9)
        prices = {}
        for objective in ("return", "policy"):
            for episode in (0, 60):
                explorer = EarningExplorer(objective)
                explorer.plan(table, info, Clock(episode, budget=64))
                prices[objective, episode] = float(explorer.carried.scalars[2])
        assert prices["policy", 0] == prices["return", 0] == prices["policy", 60]
        assert prices["policy", 60] > 5 * prices["return", 60]

    def test_what_was_tried_is_not_tried_again_before_the_next_plan(self):
        agent = directed(Statistics(40, 4))
        agent.begin(20)
        agent.evidence.add_transitions(range(39), [0] * 39, [0.0] * 39, range(1, 40))
        agent.explorer.config = EarningConfig(states_per_step=1)
        tried = []
        for _ in range(3):
            tried.append(agent.act(5))
            agent.observe(Transition(5, tried[-1], 0.0, 5))
        assert sorted(tried) == [1, 2, 3]
        assert agent.clock.steps_since_plan == 3

    def test_crumbs_do_not_hold_it_back_where_only_the_final_policy_counts(self):
        """RiverSwim: 5 for staying at the start, 10,000 far up the river."""
        environment = ENVIRONMENTS["river-swim-6"]
        mdp = environment.build()
        agent = Agent.from_pretrained()
        agent.solve(TabularEnv(mdp, horizon=environment.horizon), 32, seed=0, objective="policy")
        assert Scorer(mdp)(agent.plan().greedy) > 0.95

    def test_what_is_told_of_rewards_is_the_unit_but_a_cliff_is_no_treasure(self):
        table, prices = history(np.random.default_rng(0)).table(), {}
        for told in (None, (-100.0, 7.0), (-100.0, 0.0), (0.0, 0.0)):
            explorer = EarningExplorer()
            explorer.plan(table, ProblemInfo.of(0.9, told), Clock(budget=64))
            prices[told] = float(explorer.carried.scalars[2])
        assert prices[-100.0, 7.0] == pytest.approx(prices[None] * 7 / EarningConfig().usual_reward)
        assert prices[-100.0, 0.0] == prices[0.0, 0.0] == prices[None]

    @pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
    def test_told_costs_are_the_unit(self, scale):
        statistics = Statistics.from_transitions([0, 1], [0, 0], [-scale] * 2, [1, 2], n_states=5, n_actions=2)
        explorer = EarningExplorer()
        explorer.plan(statistics.table(), ProblemInfo.of(0.9, (-scale, 0.0)), Clock(budget=64))
        first = EarningConfig().price * 10 * scale  # of a horizon of 10 steps
        assert explorer.carried.scalars[2] == pytest.approx(first)

    def test_a_goal_that_pays_once_is_worth_less_looking_around_than_one_that_pays_on(self):
        prices = []
        for terminated in (True, False):
            statistics = Statistics(3, 2)
            statistics.add(Transition(0, 0, 0.0, 1))
            statistics.add(Transition(1, 0, 1.0, 1, terminated=terminated))
            explorer = EarningExplorer()
            explorer.plan(statistics.table(), ProblemInfo.of(0.9), Clock(budget=64))
            prices.append(float(explorer.carried.scalars[2]))
        assert prices[0] == pytest.approx(prices[1] / np.sqrt(10))

    def test_what_is_not_allowed_is_not_tried(self):
        statistics = Statistics(3, 4)
        statistics.allow(0, (False, True, False, True))
        statistics.allow(2, (False, False, False, True))
        statistics.add(Transition(0, 1, 0.0, 1))
        explorer = EarningExplorer()
        explorer.plan(statistics.table(), ProblemInfo.of(0.9), Clock(budget=8))
        assert explorer.action(0, statistics.mask(0)) == 3
        assert explorer.action(2, statistics.mask(2)) == 3

    def test_in_the_last_episode_it_exploits(self):
        mdp = lock(4)
        agent = learner(mdp, "directed")
        agent.begin(3)
        agent.clock.episode = 2
        agent.act(0)
        np.testing.assert_array_equal(agent.acting_policy, agent.plan())
        agent.explore, agent.clock.episode, agent.has_plan = False, 0, False
        agent.act(0)
        np.testing.assert_array_equal(agent.acting_policy, agent.plan())
        agent.explore, agent.has_plan = True, False
        agent.act(0)
        assert agent.acting_policy is None  # the explorer acts

    def test_the_table_to_explore_by_is_a_policy_that_leads_to_the_unseen(self):
        statistics = Statistics.from_transitions(
            [0, 0, 1], [0, 1, 0], [1.0, 0.0, 0.0], [0, 1, 0], n_states=4, n_actions=2
        )
        table = held_policy(statistics.table(), ProblemInfo.of(0.9))
        assert table.shape == (4, 2)
        np.testing.assert_allclose(table.sum(axis=1), 1)
        assert table.min() > 0
        assert table[0, 1] > 0.9  # to state 1 …
        assert table[1, 1] > 0.9  # … where action 1 was never taken
        np.testing.assert_allclose(table[2:], 0.5)


class TestTooLittleTime:
    def test_it_says_so_and_still_earns_more_than_chance(self):
        """500 pairs and 60 steps."""
        mdp, earned = ENVIRONMENTS["garnet-100-5-2"].build(), []
        for seed in range(8):
            agent = Agent.from_pretrained()
            result = agent.solve(TabularEnv(mdp, horizon=20), 3, seed=seed, discount=mdp.discount)
            earned.append(np.mean(agent.problem.history.discounted_returns))
            assert str(result.coverage).count("far more pairs exist than were tried") == 1
        uniform = finite_horizon_value(mdp, np.full(mdp.reward.shape, 1 / mdp.n_actions), 20)
        assert np.mean(earned) > uniform


class TestUndoing:
    @pytest.mark.parametrize("seed", range(5))
    def test_it_is_what_its_definition_says(self, seed):
        rng = np.random.default_rng(seed)
        p = np.where(rng.random((6, 3, 6)) < 0.3, rng.random((6, 3, 6)), 0.0)
        tried = p.any(axis=-1) & (rng.random((6, 3)) < 0.8)
        p = np.where(tried[..., None], p / np.maximum(p.sum(-1, keepdims=True), 1e-12), 0.0)
        start, action, following = np.nonzero(p)
        moves = (start != following) & tried.any(axis=1)[following]
        start, action, following = start[moves], action[moves], following[moves]
        found = undone(start, action, following, p[start, action, following], tried)
        np.testing.assert_allclose(found, undone_by_loops(p, tried), atol=1e-12)

    def test_nothing_seen_undoes_nothing(self):
        nothing = np.zeros(0, dtype=np.int64)
        assert not undone(nothing, nothing, nothing, np.zeros(0), np.zeros((3, 2), dtype=bool)).any()

    def test_what_leads_back_is_tried_last(self):
        """A corridor with a side door everywhere: right was taken ten times, left took it back where it was tried."""
        right, left, door = 0, 1, 2
        moves = [(s, right, s + 1) for s in range(10)] + [(s, left, s - 1) for s in range(1, 5)]
        moves += [(s, door, 11) for s in range(1, 5)]
        statistics = Statistics.from_transitions(
            *zip(*[(s, a, 0.0, t) for s, a, t in moves], strict=True), n_states=12, n_actions=3
        )
        explorer = EarningExplorer()
        explorer.plan(statistics.table(), ProblemInfo.of(0.9), Clock(budget=64))
        assert [explorer.action(state) for state in range(5, 10)] == [door] * 5


class TestNews:
    def count_plans(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        plans = []
        plan = EarningExplorer.plan

        def counted(self: EarningExplorer, *known: Any) -> None:
            plans.append(len(plans))
            plan(self, *known)

        monkeypatch.setattr(EarningExplorer, "plan", counted)
        return plans

    def test_it_plans_again_only_on_news(self, monkeypatch):
        """A ring of one state and one action: the 1st, 2nd, 4th, 8th … visit are news, as is a price that has grown."""
        plans = self.count_plans(monkeypatch)
        config = EarningConfig()
        agent, since = directed(Statistics(1, 1)), 0
        agent.explorer.config = EarningConfig(price=1e-9)  # it never reaches its limit
        steps = math.log(config.replan_growth) / (config.late_in_episode * math.log(1 / 0.9))
        for step in range(1, 100):
            agent.act(0)
            agent.observe(Transition(0, 0, 1.0, 0))
            since += 1
            due = step in {1, 2, 4, 8, 16, 32, 64} or since >= steps
            assert (not agent.has_plan) == due
            since = 0 if due else since
        assert len(plans) > 8

    def test_once_the_price_cannot_grow_only_news_count(self, monkeypatch):
        plans = self.count_plans(monkeypatch)
        agent = directed(Statistics(1, 1))
        agent.explorer.config = EarningConfig(price=10.0)
        for _ in range(100):
            agent.act(0)
            agent.observe(Transition(0, 0, 1.0, 0))
        assert len(plans) == 8  # before the first step and after the visits 1, 2, 4, …, 64

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
        assert (not agent.has_plan) is is_news
        assert novelty.replan_trigger is (is_news and not transition.ends_episode)
        assert agent.clock.episode == int(transition.ends_episode)

    def test_many_states_make_a_plan_serve_for_more_steps(self):
        n = 200
        agent = directed(Statistics.from_transitions(range(n), [0] * n, [0.0] * n, [0] * n, n_actions=1))
        agent.act(0)
        news = []
        for step in range(12):
            agent.observe(Transition(step, 0, 0.0, step + 1))  # a new successor each time
            news.append(not agent.has_plan)
        assert news == [step + 1 >= n / EarningConfig().states_per_step for step in range(12)]

    def test_news_wait_until_the_last_plan_has_served(self):
        """Nothing is new any more when the time to plan has come, but something was."""
        explorer, clock = EarningExplorer(config=EarningConfig(states_per_step=10)), Clock()
        clock.advance(0, ends_episode=False, replan_trigger=True)
        assert not explorer.plans_again(clock, n_visited=60, n_actions=2)
        for _ in range(2):
            clock.advance(0, ends_episode=False, replan_trigger=False)
        assert explorer.plans_again(clock, n_visited=60, n_actions=2)
        clock.planned()
        for _ in range(10):
            clock.advance(0, ends_episode=False, replan_trigger=False)
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
