"""What is measured is what users get: protocols, single and vector environments, logs and evaluation share one way."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import mdpfn
from mdpfn import Agent, MdpfnError
from mdpfn.bench.environments import ENVIRONMENTS, Environment, TabularEnv
from mdpfn.bench.protocols import convergence, leaderboard, offline
from mdpfn.bench.protocols.convergence import ConvergenceProtocol
from mdpfn.bench.protocols.leaderboard import LeaderboardProtocol
from mdpfn.bench.protocols.methods import IN_CONTEXT, AgentContestant, Method, stored_weights
from mdpfn.bench.protocols.offline import OfflineProtocol, uniform_stream
from mdpfn.bench.protocols.parallel import generator, seed_of
from mdpfn.model.exact import Scorer, policy_value
from mdpfn.model.mdp import TabularMDP
from mdpfn.planners.policies import one_hot
from mdpfn.weights import shipped_models
from tests.interface import Recorded, contents, tiny_agent
from tests.planned import planned_model

pytestmark = pytest.mark.filterwarnings("ignore::mdpfn.plan.UnknownStateWarning")  # is for users

PROBLEMS = ("gridworld-3x3", "frozen-lake", "river-swim-6", "chain-5", "queue-service")
MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]
Log = list[tuple[Any, ...]]


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch) -> list[tuple[AgentContestant, Log]]:
    """Every contestant that protocols start, and everything that it does in its environment."""
    found: list[tuple[AgentContestant, Log]] = []
    start = Method.start

    def recording_start(self: Method, mdp: TabularMDP, seed: int, **told: Any) -> Any:
        contestant = start(self, mdp, seed, **told)
        assert isinstance(contestant, AgentContestant)
        found.append((contestant, []))
        return contestant

    monkeypatch.setattr(Method, "start", recording_start)
    for protocol in (leaderboard, convergence):
        monkeypatch.setattr(
            protocol, "TabularEnv", lambda *given, **named: Recorded(TabularEnv(*given, **named), found[-1][1])
        )
    return found


def ours(name: str) -> Method:
    return Method(IN_CONTEXT, weights=stored_weights(name))


def predictions(agent: Agent, n_states: int) -> list[int]:
    return [agent.predict(state, deterministic=True)[0] for state in range(n_states)]


@pytest.mark.filterwarnings("ignore::mdpfn.coverage.CoverageWarning")
@pytest.mark.parametrize("environment", [ENVIRONMENTS[name] for name in PROBLEMS], ids=PROBLEMS)
@pytest.mark.parametrize("name", shipped_models())
class TestWhatIsScored:
    def test_the_leaderboard(self, name: str, environment: Environment, lives: list[Any]) -> None:
        """The same episodes, although a protocol looks at policies in between, and the same policy at the end."""
        n_episodes, mdp = 8, environment.build()
        rows = leaderboard.measure(LeaderboardProtocol(n_episodes, seeds=2), environment, ours(name))
        assert len(lives) == 2
        for seed, (contestant, scored_log) in enumerate(lives):
            rng = generator("leaderboard", environment.name, seed)
            labels = rng.permutation(mdp.n_states), rng.permutation(mdp.n_actions)
            agent, log = Agent.from_pretrained(name), []
            env = Recorded(TabularEnv(mdp, horizon=environment.horizon, labels=labels), log)
            result = agent.solve(
                env, n_episodes, seed=seed_of("leaderboard", environment.name, seed), discount=mdp.discount
            )
            assert log == scored_log
            assert result.returns.tolist() == contestant.agent.problem.history.returns
            assert result.lengths.tolist() == contestant.agent.problem.history.lengths
            assert agent.problem.history.discounted_returns == contestant.agent.problem.history.discounted_returns
            actions = predictions(agent, mdp.n_states)
            assert actions == contestant.policy().argmax(axis=1).tolist()
            (last,) = (row for row in rows if (row["seed"], row["episodes"]) == (seed, n_episodes))
            policy = one_hot(np.array(actions), mdp.n_actions)[labels[0]][:, labels[1]]
            assert last["score"] == Scorer(mdp)(policy)

    def test_convergence(self, name: str, environment: Environment, lives: list[Any]) -> None:
        """Episodes that run on through terminal states, and states and actions with their own numbers."""
        protocol, mdp = ConvergenceProtocol(seeds=1, agent_max_episodes=6), environment.build()
        convergence.measure(protocol, environment, ours(name))
        ((contestant, scored_log),) = lives
        agent, log = Agent.from_pretrained(name), []
        env = Recorded(TabularEnv(mdp, horizon=protocol.horizon, terminates=False), log)
        result = agent.solve(env, protocol.agent_max_episodes, seed=0, discount=mdp.discount)
        assert log == scored_log
        assert result.returns.tolist() == contestant.agent.problem.history.returns
        assert predictions(agent, mdp.n_states) == contestant.policy().argmax(axis=1).tolist()

    def test_logged_data(self, name: str, environment: Environment, lives: list[Any]) -> None:
        protocol, mdp = OfflineProtocol(seeds=2, sizes=(16, 256)), environment.build()
        rows = offline.measure(protocol, environment, ours(name))
        assert len(lives) == 2
        for seed, (contestant, _) in enumerate(lives):
            stream = uniform_stream(mdp, seed, 256, protocol.horizon)
            for size in protocol.sizes:
                columns = tuple(np.array(column) for column in zip(*stream[:size], strict=True))
                agent = Agent.from_pretrained(name).fit(
                    columns, observation_space=mdp.n_states, action_space=mdp.n_actions, discount=mdp.discount
                )
                actions = predictions(agent, mdp.n_states)
                (row,) = (row for row in rows if (row["seed"], row["transitions"]) == (seed, size))
                assert row["score"] == Scorer(mdp)(one_hot(np.array(actions), mdp.n_actions))
            assert actions == contestant.policy().argmax(axis=1).tolist()  # of the last size
            assert contents(agent.statistics) == contents(contestant.agent.statistics)


# One episode loop


def lake() -> gym.Env[Any, Any]:
    """Some episodes terminate, others are truncated."""
    return gym.wrappers.TimeLimit(gym.make("FrozenLake-v1"), 9)


def vector_of_one(make: Callable[[], gym.Env[Any, Any]], mode: AutoresetMode) -> SyncVectorEnv:
    return SyncVectorEnv([make], autoreset_mode=mode)


MAKERS: dict[str, Callable[[], Agent]] = {"softmax": tiny_agent, "directed": lambda: Agent(planned_model())}


class TestOneLoop:
    @pytest.mark.parametrize("make_agent", MAKERS.values(), ids=MAKERS)
    @pytest.mark.parametrize("mode", MODES)
    def test_a_vector_of_one_is_that_one(self, make_agent: Callable[[], Agent], mode: AutoresetMode) -> None:
        alone, inside = [], []
        single, vector = make_agent(), make_agent()
        first = single.solve(Recorded(lake(), alone), 12, seed=3, evaluate=7)
        second = vector.solve(vector_of_one(lambda: Recorded(lake(), inside), mode), 12, seed=3, evaluate=7)
        assert alone == inside
        np.testing.assert_array_equal(first.returns, second.returns)
        np.testing.assert_array_equal(first.evaluation, second.evaluation)
        assert single.problem.history.discounted_returns == vector.problem.history.discounted_returns
        assert contents(single.statistics) == contents(vector.statistics)
        assert any(row[4] for row in alone)
        assert any(row[5] for row in alone)

    @pytest.mark.parametrize("mode", MODES)
    def test_what_is_learned_is_what_happened(self, mode: AutoresetMode) -> None:
        """Of three environments side by side: every transition once, and none across a reset."""
        log: Log = []
        agent = tiny_agent()
        agent.solve(SyncVectorEnv([lambda: Recorded(lake(), log)] * 3, autoreset_mode=mode), 20, seed=0)
        unseen = len(log) - agent.statistics.n_transitions
        assert 0 <= unseen < 3  # what came after the last episode in the same step
        replayed = tiny_agent().reset(16, 4)
        for state, action, reward, following, terminated, truncated in log[: len(log) - unseen]:
            replayed.observe(state, action, reward, following, terminated=terminated, truncated=truncated)
        assert contents(agent.statistics) == contents(replayed.statistics)

    @pytest.mark.parametrize("make", [lake, lambda: SyncVectorEnv([lake] * 3)], ids=["single", "vector"])
    def test_a_run_stops_when_it_is_told_to(self, make: Callable[[], Any]) -> None:
        seen = []

        def enough(history: mdpfn.History) -> bool | None:
            seen.append(len(history.returns))
            return False if len(history.returns) == 5 else None

        result = tiny_agent().solve(make(), 30, seed=0, on_episode=enough)
        assert seen == [1, 2, 3, 4, 5]
        assert len(result.returns) == 5
        whole = tiny_agent().solve(make(), 30, seed=0, on_episode=lambda history: True)
        assert len(whole.returns) == 30

    def test_the_final_policy_is_evaluated_without_learning(self) -> None:
        log: Log = []
        plain, evaluated = tiny_agent(), tiny_agent()
        without = plain.solve(lake(), 15, seed=2)
        result = evaluated.solve(Recorded(lake(), log), 15, seed=2, evaluate=10)
        assert contents(evaluated.statistics) == contents(plain.statistics)
        assert evaluated.problem.history.returns == plain.problem.history.returns
        np.testing.assert_array_equal(result.policy, without.policy)
        assert plain.problem.learner.clock == evaluated.problem.learner.clock
        learners = plain.problem.learner, evaluated.problem.learner
        assert learners[0].rng.bit_generator.state == learners[1].rng.bit_generator.state

        played = log[plain.statistics.n_transitions :]
        assert {action == result.plan.greedy[state] for state, action, *_ in played} == {True}
        assert result.evaluation.tolist() == list(returns_in(played))
        env, observed = lake(), []
        for episode in range(10):  # as a user would do it
            observation, total, over = env.reset(seed=3 if episode == 0 else None)[0], 0.0, False
            while not over:
                observation, reward, terminated, truncated, _ = env.step(evaluated.predict(observation)[0])
                total, over = total + float(reward), terminated or truncated
            observed.append(total)
        assert observed == result.evaluation.tolist()

    def test_both_halves_are_told(self) -> None:
        agent = tiny_agent()
        result = agent.solve(lake(), 15, seed=2, evaluate=10)
        text = str(result)
        assert f"earned while learning: mean return {result.returns.mean():.4g}" in text
        assert f"the final policy earns {result.evaluation.mean():.4g}" in text
        assert "10 evaluation episodes" in text
        assert result.to_dict()["evaluation"] == result.evaluation.tolist()
        assert agent.result.evaluation.tolist() == result.evaluation.tolist()
        later = agent.solve(lake(), 1, seed=2, resume=True)
        assert len(later.evaluation) == 0  # it was another policy's
        assert "final policy earns" not in str(later)
        with pytest.raises(MdpfnError, match="evaluate"):
            agent.solve(lake(), 1, evaluate=-1)

    @pytest.mark.parametrize("vector", [False, True])
    def test_evaluation_numbers_no_states(self, vector: bool) -> None:
        """Every episode is in another room: those of the evaluation are new."""
        agent = tiny_agent()
        env = SyncVectorEnv([Rooms], autoreset_mode=AutoresetMode.SAME_STEP) if vector else Rooms()
        result = agent.solve(env, 4, seed=0, evaluate=5)
        assert len(result.evaluation) == 5
        assert all(name in {"room 0", "room 1", "room 2", "room 3", "hall", "room 4"} for name in result.plan.states)
        assert len(result.plan.states) == agent.statistics.n_states == agent.problem.encoding.states.n


def returns_in(log: Log) -> Iterator[float]:
    total = 0.0
    for *_, reward, _, terminated, truncated in log:
        total += reward
        if terminated or truncated:
            yield total
            total = 0.0


class Rooms(gym.Env[Any, Any]):
    """The first observation of an episode is a new room; then comes the hall, and the end."""

    observation_space = spaces.Text(20)
    action_space = spaces.Discrete(2)
    number = -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.number, self.steps = self.number + 1, 0
        return f"room {self.number}", {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return "hall", float(action), self.steps == 2, False, {}


# What fails changes nothing


class Broken(gym.Wrapper[Any, Any, Any, Any]):
    """It cannot be reset, or not be stepped."""

    def __init__(self, env: gym.Env[Any, Any], method: str) -> None:
        super().__init__(env)
        self.method = method

    def reset(self, **options: Any) -> Any:
        if self.method == "reset":
            raise RuntimeError("no power")
        return self.env.reset(**options)

    def step(self, action: Any) -> Any:
        raise RuntimeError("no power")


def fails_in_reset(agent: Agent, **options: Any) -> None:
    agent.solve(Broken(gym.make("FrozenLake-v1"), "reset"), 3, **options)


def fails_in_step(agent: Agent, **options: Any) -> None:
    agent.solve(Broken(gym.make("FrozenLake-v1"), "step"), 3, **options)


def limits_a_vector(agent: Agent, **options: Any) -> None:
    agent.solve(SyncVectorEnv([lambda: gym.make("FrozenLake-v1")] * 2), 3, max_episode_steps=5, **options)


def has_no_mode(agent: Agent, **options: Any) -> None:
    env = SyncVectorEnv([lambda: gym.make("FrozenLake-v1")])
    env.metadata = {}
    agent.solve(env, 3, **options)


FAILURES = [fails_in_reset, fails_in_step, limits_a_vector, has_no_mode]


class TestFailures:
    @pytest.mark.parametrize("make_agent", MAKERS.values(), ids=MAKERS)
    @pytest.mark.parametrize("options", [{"seed": 9}, {"seed": 9, "discount": 0.5}, {"resume": True}])
    @pytest.mark.parametrize("fail", FAILURES)
    def test_before_the_first_transition(
        self, fail: Callable[..., None], options: dict[str, Any], make_agent: Callable[[], Agent]
    ) -> None:
        agent = make_agent()
        before = agent.solve("FrozenLake-v1", 6, seed=0, evaluate=3)
        known, plan, settings = contents(agent.statistics), agent.plan(), agent.problem.options
        with pytest.raises(MdpfnError):
            fail(agent, **options)
        assert contents(agent.statistics) == known
        assert agent.problem.options == settings
        assert agent.plan() is plan
        after = agent.result
        assert after.returns.tolist() == before.returns.tolist()
        assert after.evaluation.tolist() == before.evaluation.tolist()
        assert after.value.draws.tolist() == before.value.draws.tolist()
        assert len(agent.solve("FrozenLake-v1", 2, seed=1, resume=True).returns) == 8

    @pytest.mark.parametrize("fail", FAILURES)
    def test_of_an_agent_that_knows_nothing(self, fail: Callable[..., None]) -> None:
        agent = tiny_agent()
        with pytest.raises(MdpfnError):
            fail(agent)
        with pytest.raises(MdpfnError, match="knows no problem"):
            agent.plan()

    def test_of_data(self) -> None:
        agent = tiny_agent()
        agent.solve("FrozenLake-v1", 6, seed=0)
        known, plan = contents(agent.statistics), agent.plan()
        for data in (([0, 1], [0, 0], [0.0, np.nan], [1, 0]), ([], [], [], []), "nowhere.csv"):
            with pytest.raises(MdpfnError):
                agent.fit(data)
        with pytest.raises(MdpfnError, match="reward"):
            agent.fit(([0, 1], [0, 0], [0.0, 5.0], [1, 0]), reward_range=(0, 1))
        assert contents(agent.statistics) == known
        assert agent.plan() is plan

    def test_a_run_that_fails_later_keeps_what_it_learned(self) -> None:
        class Tired(gym.Wrapper[Any, Any, Any, Any]):
            steps = 0

            def step(self, action: Any) -> Any:
                self.steps += 1
                if self.steps > 3:
                    raise RuntimeError("no power")
                return self.env.step(action)

        agent = tiny_agent()
        agent.solve("FrozenLake-v1", 6, seed=0)
        with pytest.raises(MdpfnError, match="no power"):
            agent.solve(Tired(gym.make("FrozenLake-v1")), 6, seed=0)
        assert agent.statistics.n_transitions == 3


# States that appear


class TestNewStates:
    @pytest.mark.parametrize("make_agent", MAKERS.values(), ids=MAKERS)
    def test_results_and_plans_have_them_once_they_were_acted_in(
        self, make_agent: Callable[[], Agent], tmp_path: Path
    ) -> None:
        agent = make_agent().reset(None, ["stay", "go"], seed=0)
        agent.observe("a", "go", 1.0, "b", terminated=False)
        agent.observe("b", "stay", 0.0, "a", terminated=False, truncated=True)
        assert agent.plan().states == agent.result.plan.states == ["a", "b"]
        assert agent.act("c") in ("stay", "go")
        result = agent.result
        assert agent.plan().states == result.plan.states == ["a", "b", "c"]
        assert result.plan is agent.plan()
        assert result.policy.shape == result.coverage.n_visits.shape == (3, 2)
        assert result.value.by_state.shape == (3,)
        assert result.coverage.reached.tolist() == [True, True, False]
        result.save_policy(tmp_path / "policy.csv")
        assert (tmp_path / "policy.csv").read_text().count("\n") == 4
        assert "states reached" in str(result)
        assert agent.predict("c")[0] == result.plan.actions[result.plan.greedy[2]]
        agent.observe("c", "go", 5.0, "d", terminated=True)
        assert agent.result.plan.states == ["a", "b", "c", "d"]
        assert agent.result.coverage.terminal.tolist() == [False, False, False, True]

    def test_asking_makes_none(self) -> None:
        agent = tiny_agent().reset(None, ["stay", "go"], seed=0)
        agent.observe("a", "go", 1.0, "b", terminated=False)
        plan = agent.plan()
        assert agent.predict("c")[0] in ("stay", "go")
        assert agent.predict("d", deterministic=False)[0] in ("stay", "go")
        assert agent.plan() is plan
        assert agent.result.plan.states == ["a", "b"]
        assert agent.statistics.n_states == 2


# The names of the package


def mentioned(hint: Any) -> Iterator[type]:
    """The classes of this package that a type is made of."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    for part in (origin, *parts):
        if isinstance(part, list | tuple):
            for inner in part:
                yield from mentioned(inner)
        elif part is not None:
            yield from mentioned(part)
    if inspect.isclass(hint) and hint.__module__.startswith("mdpfn"):
        yield hint


INSIDES = {"Agent.problem", "Options.info", "Plan.posterior"}  # for those who look into the machine


def returned_by(thing: Any) -> Iterator[tuple[str, type]]:
    """What a public function returns, or the public methods and properties of a class."""
    members = inspect.getmembers_static(thing) if inspect.isclass(thing) else [("", thing)]
    for name, member in members:
        where = f"{thing.__name__}.{name}" if name else thing.__name__
        if name.startswith("_") or where in INSIDES:
            continue
        for wrapper in ("__func__", "fget", "func"):  # class methods, properties, cached properties
            member = getattr(member, wrapper, member)
        if inspect.isfunction(member) and member.__module__.startswith("mdpfn"):
            for found in mentioned(typing.get_type_hints(member).get("return")):
                yield where, found


class TestNames:
    @pytest.mark.parametrize("name", [name for name in mdpfn.__all__ if name != "__version__"])
    def test_what_public_functions_return_has_a_public_name(self, name: str) -> None:
        public = {getattr(mdpfn, exported) for exported in mdpfn.__all__ if exported != "__version__"}
        returned = list(returned_by(getattr(mdpfn, name)))
        assert [f"{where} returns {kind.__name__}" for where, kind in returned if kind not in public] == []

    def test_such_functions_are_found(self) -> None:
        """Or the test before would say nothing."""
        found = {
            (where, kind)
            for name in ("Agent", "Statistics", "load_model")
            for where, kind in returned_by(getattr(mdpfn, name))
        }
        assert found >= {
            ("Agent.solve", mdpfn.Result),
            ("Agent.from_pretrained", Agent),
            ("Agent.statistics", mdpfn.Statistics),
            ("Statistics.add", mdpfn.Novelty),
            ("Statistics.table", mdpfn.PairTable),
            ("load_model", mdpfn.Model),
        }

    def test_all_names_are_there(self) -> None:
        assert sorted(mdpfn.__all__) == mdpfn.__all__
        for name in mdpfn.__all__:
            assert getattr(mdpfn, name) is not None
        with pytest.raises(AttributeError, match="no attribute"):
            mdpfn.NoSuchName  # noqa: B018

    def test_returned_values_are_of_these_types(self) -> None:
        agent = Agent.from_pretrained()
        result = agent.solve("FrozenLake-v1", 2, seed=0)
        for value, kind in (
            (agent.model, mdpfn.Model),
            (agent.limits, mdpfn.Limits),
            (result, mdpfn.Result),
            (result.plan, mdpfn.Plan),
            (result.coverage, mdpfn.Coverage),
            (agent.statistics, mdpfn.Statistics),
            (agent.statistics.table(), mdpfn.PairTable),
            (agent.statistics.add(mdpfn.Transition(0, 0, 0.0, 0)), mdpfn.Novelty),
            (agent.problem.history, mdpfn.History),
            (agent.problem.options, mdpfn.Options),
        ):
            assert type(value) is kind
        evidence: mdpfn.Evidence = agent.statistics  # a protocol
        assert evidence.n_actions == 4


# How sure values are


class TestIntervals:
    @pytest.mark.parametrize("name", ["garnet-10-3-2", "machine-replacement-6", "queue-service"])
    def test_they_narrow_and_mostly_hold_the_truth(self, name: str) -> None:
        """Where every pair is visited: of others they say nothing."""
        environment = ENVIRONMENTS[name]
        mdp, sizes, n_seeds = environment.build(), (400, 1600, 6400), 12
        rewards = float(mdp.outcome_reward.min()), float(mdp.outcome_reward.max())
        widths, held = np.zeros((n_seeds, len(sizes))), np.zeros((n_seeds, len(sizes)), dtype=bool)
        for seed in range(n_seeds):
            stream = uniform_stream(mdp, seed, max(sizes), environment.horizon)
            for i, size in enumerate(sizes):
                agent = Agent(planned_model()).fit(
                    tuple(np.array(column) for column in zip(*stream[:size], strict=True)),
                    observation_space=mdp.n_states,
                    action_space=mdp.n_actions,
                    discount=mdp.discount,
                    reward_range=rewards,
                )
                result = agent.result
                low, high = result.value.interval(0.9)
                narrow = result.value.interval(0.5)
                assert low <= narrow[0] <= narrow[1] <= high
                truth = float(mdp.start @ policy_value(mdp, result.plan.greedy))
                widths[seed, i], held[seed, i] = high - low, low <= truth <= high
        mean = widths.mean(axis=0)
        assert mean[1] < 0.75 * mean[0]
        assert mean[2] < 0.75 * mean[1]
        assert held.mean() >= 0.65
