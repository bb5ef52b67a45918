"""The agent in real environments: its own loop, `solve`, and what it tells afterwards."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from mdpfn import MdpfnError, Statistics, Transition
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.online import problem
from mdpfn.plan import MOST_SHOWN, Plan
from mdpfn.planners.policies import one_hot
from tests.interface import contents, tiny_agent

pytestmark = pytest.mark.filterwarnings("ignore::mdpfn.plan.UnknownStateWarning")  # is for users


class Corridor(gym.Env[Any, Any]):
    """States are tuples nobody counted before; the episode ends at either end, or never if it is `endless`."""

    observation_space: Any = None
    action_space = spaces.Discrete(2, start=1)

    def __init__(self, endless: bool = False) -> None:
        self.endless, self.place = endless, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 0
        return ("cell", 0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(np.int64(action))
        self.place = max(-3, min(3, self.place + (1 if action == 2 else -1)))
        return ("cell", self.place), float(self.place == 3), abs(self.place) == 3 and not self.endless, False, {}


def test_solving_is_repeatable_and_counts_what_happened() -> None:
    runs = [tiny_agent() for _ in range(2)]
    results = [run.solve(gym.make("FrozenLake-v1"), episodes=30, seed=3) for run in runs]
    np.testing.assert_array_equal(results[0].returns, results[1].returns)
    np.testing.assert_array_equal(results[0].policy, results[1].policy)
    assert contents(runs[0].statistics) == contents(runs[1].statistics)
    result = results[0]
    assert len(result.returns) == len(result.lengths) == 30
    assert result.steps == runs[0].statistics.n_transitions
    assert result.policy.shape == (16, 4)
    np.testing.assert_allclose(result.policy.sum(axis=1), 1)
    assert result.value.by_state.shape == (16,)
    assert result.coverage.start_states == {0: 30}
    assert runs[0].statistics.terminal <= {5, 7, 11, 12, 15}
    other = tiny_agent().solve(gym.make("FrozenLake-v1"), episodes=30, seed=4)
    assert not np.array_equal(other.lengths, result.lengths)


def test_an_own_loop_does_what_solve_does() -> None:
    solved, looped = tiny_agent(), tiny_agent()
    result = solved.solve(gym.make("FrozenLake-v1"), episodes=10, seed=1)
    env = gym.make("FrozenLake-v1")
    looped.reset(env.observation_space, env.action_space, discount=0.95, seed=1)
    observation, _ = env.reset(seed=1)
    while len(looped.result.returns) < 10:
        action = looped.act(observation)
        following, reward, terminated, truncated, _ = env.step(action)
        looped.observe(observation, action, reward, following, terminated=terminated, truncated=truncated)
        observation = env.reset()[0] if terminated or truncated else following
    assert contents(solved.statistics) == contents(looped.statistics)
    np.testing.assert_array_equal(result.returns, looped.result.returns)


@pytest.mark.parametrize("name", ["Taxi-v4", "CliffWalking-v1", "Blackjack-v1"])
def test_other_toy_texts_run(name: str) -> None:
    agent = tiny_agent()
    result = agent.solve(gym.make(name), episodes=3, seed=0, max_episode_steps=200)
    assert len(result.returns) == 3
    assert result.lengths.max() <= 200
    assert len(result.plan.states) == len(result.policy)


def test_a_state_of_blackjack_ends_some_episodes_and_not_others() -> None:
    agent = tiny_agent()
    agent.solve(gym.make("Blackjack-v1"), episodes=120, seed=0)
    z = agent.statistics.table()
    left = set((z.pair // 2).tolist())
    assert agent.statistics.terminal & left  # sticking ends the episode in a state in which others hit on
    assert (
        np.abs(agent.result.value.by_state).max() <= 1
    )  # one game is won or lost once, whatever loops the states suggest


def test_states_may_be_discovered_and_actions_start_anywhere() -> None:
    agent = tiny_agent()
    result = agent.solve(Corridor(), episodes=20, seed=0)
    assert set(result.plan.states) <= {("cell", i) for i in range(-3, 4)}
    assert result.plan.actions == [1, 2]
    assert agent.statistics.n_states == len(result.plan.states)
    action, state = agent.predict(("cell", 1), state="unused")
    assert action in (1, 2)
    assert state == "unused"
    assert agent.predict(("cell", 99))[0] in (1, 2)


def test_an_endless_environment_is_broken_off_and_truncation_is_no_termination() -> None:
    agent = tiny_agent()
    result = agent.solve(Corridor(endless=True), episodes=2, seed=0)
    assert result.lengths.tolist() == [1000, 1000]
    assert agent.statistics.terminal == set()
    result = agent.solve(Corridor(endless=True), episodes=2, seed=0, max_episode_steps=7)
    assert result.lengths.tolist() == [7, 7]


def test_replanning_follows_episodes_or_steps() -> None:
    agent = tiny_agent()
    plans = []
    planner = agent._planner

    def counting(statistics: Any, info: Any) -> Any:
        plans.append(statistics)
        return planner(statistics, info)

    for every, expected in ((None, 3), (5, 6)):
        agent.reset(4, 2, replan_every=every, seed=0)
        agent.problem.learner.planner = counting
        plans.clear()
        for step in range(30):
            agent.observe(0, agent.act(0), 0.0, 1, terminated=False, truncated=step % 10 == 9)
        assert len(plans) == expected


def test_predict_takes_batches_as_vector_environments_give_them() -> None:
    agent = tiny_agent()
    agent.solve(gym.make("FrozenLake-v1"), episodes=5, seed=0)
    actions, _ = agent.predict(np.arange(16))
    np.testing.assert_array_equal(actions, agent.plan().greedy)
    assert agent.predict(np.int64(3))[0] == agent.plan().greedy[3]
    agent.solve(gym.make("Blackjack-v1"), episodes=5, seed=0)
    batch, _ = agent.predict((np.array([12, 20]), np.array([10, 2]), np.array([0, 1])))
    assert batch.tolist() == [agent.predict((12, 10, 0))[0], agent.predict((20, 2, 1))[0]]


def test_predict_draws_from_the_policy_when_asked() -> None:
    agent = tiny_agent().reset(2, 3, seed=0)
    draws = [agent.predict(0, deterministic=False)[0] for _ in range(600)]
    np.testing.assert_allclose(np.bincount(draws) / 600, agent.plan().policy[0], atol=0.08)


def test_plans_of_tables_and_at_other_depths() -> None:
    counts = np.zeros((3, 2, 3))
    counts[0, 1, 2] = 4
    sums = np.zeros((3, 2))
    sums[0, 1] = 2.0
    agent = tiny_agent()
    plan = agent.plan(Statistics.from_counts(counts, sums))
    assert plan.policy_logits.shape == (3, 2)
    assert plan.states == [0, 1, 2]
    deeper = agent.plan(Statistics.from_counts(counts, sums), depth=9)
    assert not np.allclose(plan.policy_logits, deeper.policy_logits)
    ended = agent.plan(Statistics.from_counts(counts, sums, terminal=[2]))
    assert not np.allclose(plan.policy_logits, ended.policy_logits)


def test_a_reward_range_sets_the_scale() -> None:
    plans = []
    for reward_range in (None, (0.0, 10.0), (-10.0, 3.0)):
        agent = tiny_agent().reset(2, 2, reward_range=reward_range, seed=0)
        agent.observe(0, 1, 1.0, 1, terminated=False)
        plans.append(agent.plan().policy_logits)
    assert not np.allclose(plans[0], plans[1])
    np.testing.assert_array_equal(plans[1], plans[2])


def test_resuming_goes_on_with_what_is_known() -> None:
    agent = tiny_agent()
    first = agent.solve(gym.make("FrozenLake-v1"), episodes=4, seed=0)
    both = agent.solve(gym.make("FrozenLake-v1"), episodes=6, seed=1, resume=True)
    assert len(both.returns) == 10
    np.testing.assert_array_equal(both.returns[:4], first.returns)
    assert both.n_transitions == both.steps
    with pytest.raises(MdpfnError, match="resume"):
        agent.solve(gym.make("Taxi-v4"), episodes=1, resume=True)


def test_what_was_observed_survives_an_environment_that_raises() -> None:
    class Breaks(gym.Wrapper[Any, Any, Any, Any]):
        steps = 0

        def step(self, action: Any) -> Any:
            self.steps += 1
            if self.steps == 8:
                raise RuntimeError("sensor lost")
            return super().step(action)

    agent = tiny_agent()
    env = Breaks(gym.make("FrozenLake-v1"))
    with pytest.raises(MdpfnError, match=r"sensor lost.*resume=True"):
        agent.solve(env, episodes=50, seed=np.int64(0))  # type: ignore[arg-type]
    assert agent.statistics.n_transitions == 7
    assert agent.solve(env, episodes=2, resume=True).n_transitions > 7


def test_an_environment_that_raises_at_once_leaves_nothing_to_resume() -> None:
    class Absent(gym.Wrapper[Any, Any, Any, Any]):
        def reset(self, **options: Any) -> Any:
            raise ConnectionError("not up yet")

    agent = tiny_agent()
    agent.solve(gym.make("FrozenLake-v1"), 3, seed=0)
    known = contents(agent.statistics)
    with pytest.raises(MdpfnError, match=r"not up yet.*call solve again: nothing was observed yet"):
        agent.solve(Absent(gym.make("FrozenLake-v1")), 3, seed=0)
    assert contents(agent.statistics) == known


def test_before_anything_pays_the_value_is_not_known() -> None:
    agent = tiny_agent().reset(3, 2)
    agent.observe(0, 1, 0.0, 1, terminated=False)
    assert "not known yet, as nothing was seen that pays or costs" in str(agent.result)
    agent.observe(1, 1, 1.0, 2, terminated=True)
    assert "not known yet" not in str(agent.result)


def test_the_value_is_that_of_the_empirical_model() -> None:
    rng = np.random.default_rng(0)
    history = Statistics(6, 2)
    for _ in range(40):
        state, action, following = rng.integers([5, 2, 6]).tolist()
        history.add(Transition(state, action, float(rng.normal()), following, terminated=following == 5))
    actions = np.array([0, 1, 0, 1, 1, 0])
    counts, sums = history.dense_counts()
    visits = counts.sum(-1)
    p = np.full((6, 2, 6), 1 / 6)
    p[visits > 0] = counts[visits > 0] / visits[visits > 0][:, None]
    p[:, :, 5] = np.where(visits > 0, 0, p[:, :, 5])  # nothing follows a termination
    p[5] = 0
    r = sums / np.maximum(visits, 1)
    chosen = np.arange(6), actions
    expected = np.linalg.solve(np.eye(6) - 0.9 * p[chosen], r[chosen])
    model = EmpiricalModel.of(history.table())
    value = model.policy_value(one_hot(actions, 2), model.table.mean_reward, 0.9)
    np.testing.assert_allclose(value, expected, atol=1e-9)


def test_results_tell_draw_and_save(tmp_path: Path) -> None:
    agent = tiny_agent()
    result = agent.solve("FrozenLake-v1", episodes=12, seed=0)
    text = str(result)
    assert "12 episodes" in text
    assert "states reached" in text
    result.plot(tmp_path / "curves" / "curve.png")
    assert (tmp_path / "curves" / "curve.png").read_bytes().startswith(b"\x89PNG")
    result.save(tmp_path / "result.json")
    assert '"returns"' in (tmp_path / "result.json").read_text()


def test_what_a_prompt_shows_is_short() -> None:
    agent = tiny_agent()
    assert "no problem yet" in repr(agent)
    result = agent.solve("CliffWalking-v1", episodes=12, max_episode_steps=30, seed=0)
    for thing in (agent, result, result.plan, result.coverage):
        assert len(repr(thing)) < 100
        assert "array" not in repr(thing)
    assert f"{result.n_transitions} transitions" in repr(agent)


def test_a_printed_plan_says_what_to_do_in_known_states() -> None:
    plan = tiny_agent().solve("FrozenLake-v1", episodes=30, seed=0).plan
    assert plan.observed is not None
    decides = np.flatnonzero(plan.observed.reached_mask() & ~plan.observed.terminal_mask())
    lines = str(plan).splitlines()
    assert [line.split(" (")[0] for line in lines] == [f"{s} -> {plan.greedy[s]}" for s in decides]
    many = str(Plan(np.zeros((500, 2)))).splitlines()
    assert len(many) == MOST_SHOWN + 1
    assert many[-1] == f"… and {500 - MOST_SHOWN} more states: plan.to_frame() has them all"


def test_results_of_few_episodes_say_nothing_twice() -> None:
    agent = tiny_agent()
    assert "of the last" not in str(agent.solve("FrozenLake-v1", episodes=10, seed=0))
    assert "of the last 10 episodes" in str(agent.solve("FrozenLake-v1", episodes=11, seed=0))
    assert str(agent.solve("FrozenLake-v1", episodes=1, seed=0)).startswith("1 episode, ")


def test_a_class_is_no_environment() -> None:
    with pytest.raises(MdpfnError, match=r"the class Corridor, .*: make one: Corridor\(\)"):
        tiny_agent().solve(Corridor, 3)


def test_environments_of_the_package_are_made_by_their_id() -> None:
    from mdpfn.agent import made_env

    assert made_env("mdpfn/GridWorld-v0").observation_space.n > 1


def test_asking_for_a_prediction_makes_no_state() -> None:
    agent = tiny_agent().reset(None, 2)
    agent.observe("x", 0, 1.0, "y", terminated=False)
    for i in range(5):
        agent.predict(f"unseen {i}")
    with pytest.raises(MdpfnError):
        agent.observe("x", 7, 0.0, "nowhere", terminated=False)
    agent.observe("y", 0, 1.0, "z", terminated=False)
    assert agent.plan().states == ["x", "y", "z"]
    with pytest.raises(MdpfnError, match="hashable"):
        agent.predict({})


@pytest.mark.parametrize("option", [{"discount": 0.3}, {"reward_range": (0, 1)}])
def test_options_of_statistics_are_not_for_the_problem_at_hand(option: dict[str, Any]) -> None:
    agent = tiny_agent().reset(2, 2)
    with pytest.raises(MdpfnError, match=f"{next(iter(option))} is .* has its own"):
        agent.plan(**option)


def test_statistics_outside_the_range_of_rewards_are_refused() -> None:
    data = Statistics.from_transitions([0], [0], [100.0], [0])
    with pytest.raises(MdpfnError, match="reward is 100"):
        tiny_agent().plan(data, reward_range=(0, 1))


class TestThreads:
    """Calls of several threads take turns; only whoever lives through episodes waits for as long as it takes."""

    def test_a_long_plan_elsewhere_does_not_end_a_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(problem, "LONGEST_WAIT", 0.1)
        agent, waited = tiny_agent(), threading.Event()

        def plan_for_long(history: Any) -> None:
            if not started.is_set():
                holder.start()
                assert started.wait(5)

        def hold() -> None:
            with agent.problem.turn():
                started.set()
                time.sleep(0.4)
                waited.set()

        started, holder = threading.Event(), threading.Thread(target=hold)
        result = agent.solve(Corridor(), 5, seed=0, on_episode=plan_for_long)
        holder.join()
        assert waited.is_set()
        assert len(result.returns) == 5

    def test_other_calls_give_up_in_the_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(problem, "LONGEST_WAIT", 0.1)
        agent = tiny_agent().reset(4, 2)
        go, held = threading.Event(), threading.Event()

        def hold() -> None:
            with agent.problem.turn():
                held.set()
                go.wait(5)

        holder = threading.Thread(target=hold)
        holder.start()
        assert held.wait(5)
        with pytest.raises(MdpfnError, match="busy in another thread"):
            agent.observe(0, 1, 1.0, 2, terminated=False)
        go.set()
        holder.join()
        agent.observe(0, 1, 1.0, 2, terminated=False)
        assert agent.statistics.n_transitions == 1
