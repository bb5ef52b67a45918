"""Everything malformed is refused with an error that names the field, the value, the limit and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mdpfn import Agent, Discretize, MdpfnError, Statistics
from mdpfn.spaces.codec import LabelCodec
from tests.interface import tiny_agent, tiny_model

NAN, INF = float("nan"), float("inf")
GOOD: dict[str, Any] = {"state": [0, 1], "action": [0, 1], "reward": [0.0, 1.0], "next_state": [1, 0]}


class Scripted(gym.Env[Any, Any]):
    """Two states, two actions, and a flaw."""

    observation_space: Any = spaces.Discrete(2)
    action_space: Any = spaces.Discrete(2)

    def __init__(self, step: Any = (1, 0.0, False, False, {}), reset: Any = (0, {})) -> None:
        self.outcome, self.first = step, reset

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if isinstance(self.first, Exception):
            raise self.first
        return self.first

    def step(self, action: Any) -> Any:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def lake(**options: Any) -> Agent:
    return tiny_agent().reset(16, 4, **options)


def observe(*transition: Any, terminated: Any = False, truncated: Any = False, **options: Any) -> None:
    lake(**options).observe(*transition, terminated=terminated, truncated=truncated)


def solve(env: Any, **options: Any) -> None:
    tiny_agent().solve(env, **{"episodes": 2, "max_episode_steps": 5, **options})


def fit(changes: dict[str, Any] | None = None, **options: Any) -> None:
    data = {**GOOD, **(changes or {})}
    tiny_agent().fit({role: values for role, values in data.items() if values is not None}, **options)


def fit_csv(text: str, **options: Any) -> Callable[[Path], None]:
    def run(directory: Path) -> None:
        path = directory / "data.csv"
        path.write_text(text)
        tiny_agent().fit(path, **options)

    return run


def vector_without_mode() -> Any:
    env = SyncVectorEnv([lambda: gym.make("FrozenLake-v1")])
    env.metadata = {}
    return env


def with_space(kind: str, space: Any) -> Any:
    env = Scripted()
    setattr(env, kind, space)
    return env


HEAD = "state,action,reward,next_state\n"
Case = Callable[[], Any] | Callable[[Path], Any]

# what is wrong -> (the field that the error names, what raises it)
CASES: dict[str, tuple[str, Case]] = {
    # spaces
    "images": ("the observation space", lambda: tiny_agent().reset(spaces.Box(0, 255, (8, 8, 3)), 2)),
    "actions of a box": ("the action space", lambda: tiny_agent().reset(2, spaces.Box(0, 1))),
    "text beside a box": (
        "the observation space",
        lambda: tiny_agent().reset(spaces.Tuple([spaces.Box(0, 1), spaces.Text(3)]), 2),
    ),
    "a box in a dict": ("the action space", lambda: tiny_agent().reset(2, spaces.Dict({"a": spaces.Box(0, 1)}))),
    "no action space": ("the action space", lambda: tiny_agent().reset(2, None)),
    "no states": ("the observation space", lambda: tiny_agent().reset(0, 2)),
    "a negative number of actions": ("the action space", lambda: tiny_agent().reset(2, -1)),
    "half a state": ("the observation space", lambda: tiny_agent().reset(2.5, 2)),
    "an empty list of actions": ("the action space", lambda: tiny_agent().reset(2, [])),
    "an action named twice": ("action", lambda: tiny_agent().reset(2, ["a", "b", "a"])),
    "too many actions": ("the action space", lambda: tiny_agent().reset(2, 10**4)),
    "too many combined actions": ("the action space", lambda: tiny_agent().reset(2, spaces.MultiDiscrete([9] * 9))),
    "too many pairs": ("states × actions", lambda: tiny_agent().reset(40_000, 900)),
    "more new states than allowed": ("the number of states", lambda: discover_too_much()),
    # options
    "a discount of 1": ("discount", lambda: lake(discount=1.0)),
    "a negative discount": ("discount", lambda: lake(discount=-0.1)),
    "a discount that is no number": ("discount", lambda: lake(discount="0.9")),
    "a discount of NaN": ("discount", lambda: lake(discount=NAN)),
    "a reward range of one number": ("reward_range", lambda: lake(reward_range=1.0)),
    "a reward range the wrong way round": ("reward_range", lambda: lake(reward_range=(1, 0))),
    "an infinite reward range": ("reward_range", lambda: lake(reward_range=(0, INF))),
    "a reward range of zeros": ("reward_range", lambda: lake(reward_range=(0, 0))),
    "planning every 0 steps": ("replan_every", lambda: lake(replan_every=0)),
    "planning every half step": ("replan_every", lambda: lake(replan_every=0.5)),
    "a negative seed": ("seed", lambda: lake(seed=-1)),
    "a seed that is no number": ("seed", lambda: lake(seed="zero")),
    "a negative depth": ("depth", lambda: tiny_agent(depth=-1)),
    "a depth without end": ("depth", lambda: lake().plan(depth=10**6)),
    "half a depth": ("depth", lambda: lake().plan(depth=1.5)),
    "a temperature of 0": ("acting_temperature", lambda: tiny_agent(acting_temperature=0)),
    "a temperature of NaN": ("acting_temperature", lambda: tiny_agent(acting_temperature=NAN)),
    "unknown weights": ("weights", lambda: Agent.from_pretrained("no such model")),
    # a loop of one's own
    "acting before a problem is known": ("the agent", lambda: tiny_agent().act(0)),
    "planning before a problem is known": ("the agent", lambda: tiny_agent().plan()),
    "predicting before a problem is known": ("the agent", lambda: tiny_agent().predict(0)),
    "results before a problem is known": ("the agent", lambda: tiny_agent().result),
    "an observation outside the space": ("observation", lambda: lake().act(16)),
    "a negative observation": ("observation", lambda: lake().act(-1)),
    "a float observation": ("observation", lambda: lake().act(0.0)),
    "an observation of None": ("observation", lambda: lake().act(None)),
    "an observation in words": ("observation", lambda: lake().act("start")),
    "a list where nothing is known of states": ("observation", lambda: tiny_agent().reset(None, 2).act([1, 2])),
    "predicting outside the space": ("observation", lambda: lake().predict(16)),
    "a batch outside the space": ("observation", lambda: lake().predict(np.array([0, 16]), on_unknown="best")),
    "an action outside the space": ("action", lambda: observe(0, 4, 0.0, 1)),
    "a float action": ("action", lambda: observe(0, 1.0, 0.0, 1)),
    "an unknown action": ("action", lambda: tiny_agent().reset(2, ["a"]).observe(0, "b", 0.0, 1, terminated=False)),
    "a reward of NaN": ("reward", lambda: observe(0, 0, NAN, 1)),
    "an infinite reward": ("reward", lambda: observe(0, 0, INF, 1)),
    "a reward in words": ("reward", lambda: observe(0, 0, "much", 1)),
    "a reward of None": ("reward", lambda: observe(0, 0, None, 1)),
    "a reward vector": ("reward", lambda: observe(0, 0, np.zeros(2), 1)),
    "a reward outside its range": ("reward", lambda: observe(0, 0, 2.0, 1, reward_range=(0, 1))),
    "a next observation outside the space": ("observation", lambda: observe(0, 0, 0.0, 99)),
    "terminated in words": ("terminated", lambda: observe(0, 0, 0.0, 1, terminated="no")),
    "terminated of None": ("terminated", lambda: observe(0, 0, 0.0, 1, terminated=None)),
    "truncated as a number": ("truncated", lambda: observe(0, 0, 0.0, 1, truncated=2)),
    "planning of an array": ("statistics", lambda: tiny_agent().plan(np.zeros((2, 2, 2)))),
    "drawing without episodes": ("the number of episodes", lambda: lake().result.plot("curve.png")),
    # environments
    "no environment": ("env", lambda: solve(42)),
    "an unknown environment id": ("env", lambda: solve("NoSuchLake-v0")),
    "no episodes": ("episodes", lambda: solve("FrozenLake-v1", episodes=0)),
    "half an episode": ("episodes", lambda: solve("FrozenLake-v1", episodes=1.5)),
    "a budget beside the episodes": ("budget", lambda: solve("FrozenLake-v1", budget=8)),
    "episodes of no steps": ("max_episode_steps", lambda: solve("FrozenLake-v1", max_episode_steps=0)),
    "a large box": ("the observation space", lambda: solve(with_space("observation_space", spaces.Box(0, 1, (99,))))),
    "continuous actions": ("the action space", lambda: solve(with_space("action_space", spaces.Box(0, 1)))),
    "an old environment's step": ("env", lambda: solve(Scripted(step=(1, 0.0, False, {})))),
    "an old environment's reset": ("env", lambda: solve(Scripted(reset=0))),
    "a step that returns nothing": ("env", lambda: solve(Scripted(step=None))),
    "an environment that raises in step": ("env", lambda: solve(Scripted(step=OSError("no sensor")))),
    "an environment that raises in reset": ("env", lambda: solve(Scripted(reset=OSError("no sensor")))),
    "an environment that leaves its space": ("observation", lambda: solve(Scripted(step=(2, 0.0, False, False, {})))),
    "an environment that pays NaN": ("reward", lambda: solve(Scripted(step=(1, NAN, False, False, {})))),
    "an environment that pays infinity": ("reward", lambda: solve(Scripted(step=(1, -INF, False, False, {})))),
    "an environment that ends in words": ("terminated", lambda: solve(Scripted(step=(1, 0.0, "yes", False, {})))),
    "a vector environment of unknown ways": ("env", lambda: solve(vector_without_mode(), max_episode_steps=None)),
    "resuming nothing": ("the agent", lambda: solve("FrozenLake-v1", resume=True)),
    "resuming with another discount": ("the options", lambda: resume_with(discount=0.5)),
    "resuming with the default discount after another": ("the options", lambda: resume_with(0.9, discount=0.95)),
    "resuming with another range": ("the options", lambda: resume_with(reward_range=(0, 9))),
    "a step limit for a vector environment": ("max_episode_steps", lambda: solve(gym.make_vec("FrozenLake-v1", 2))),
    "nothing to discretize": ("env", lambda: Discretize(gym.make("FrozenLake-v1"))),
    "no bins": ("bins", lambda: Discretize(gym.make("CartPole-v1"), bins=0)),
    "bins for other dimensions": ("bins", lambda: Discretize(gym.make("CartPole-v1"), bins=[3, 3])),
    "an unknown way to make bins": ("strategy", lambda: Discretize(gym.make("CartPole-v1"), strategy="kmeans")),
    "samples of another shape": ("samples", lambda: Discretize(gym.make("CartPole-v1"), samples=np.zeros((5, 2)))),
    "samples of NaN": ("samples", lambda: Discretize(gym.make("CartPole-v1"), samples=np.full((5, 4), NAN))),
    "no samples": ("samples", lambda: Discretize(gym.make("CartPole-v1"), samples=0)),
    # data
    "no data": ("transitions", lambda: tiny_agent().fit(None)),
    "a number for data": ("transitions", lambda: tiny_agent().fit(7)),
    "three arrays": ("transitions", lambda: tiny_agent().fit(([0], [0], [0.0]))),
    "an empty list": ("transitions", lambda: tiny_agent().fit([])),
    "empty columns": ("transitions", lambda: fit({role: [] for role in GOOD})),
    "an empty iterator": ("transitions", lambda: tiny_agent().fit(iter([]))),
    "tuples of three": ("transitions", lambda: tiny_agent().fit([(0, 0, 0.0)])),
    "tuples of different lengths": ("transitions", lambda: tiny_agent().fit([(0, 0, 0.0, 1), (0, 0, 0.0)])),
    "done without next states": ("columns", lambda: fit({"next_state": None, "done": [False, True]})),
    "no states in the data": ("columns", lambda: fit({"state": None})),
    "no rewards in the data": ("columns", lambda: fit({"reward": None})),
    "two columns for one role": ("columns", lambda: fit({"obs": [0, 1]})),
    "a column that is not there": ("columns", lambda: fit(columns={"state": "place"})),
    "a role that is not one": ("columns", lambda: fit(columns={"place": "state"})),
    "columns of different lengths": ("the columns", lambda: fit({"reward": [0.0]})),
    "a column that is a number": ("reward", lambda: fit({"reward": 0.0})),
    "float ids": ("state", lambda: fit({"state": [0.5, 1.0]})),
    "negative ids": ("state", lambda: fit({"next_state": [-1, 0]})),
    "ids of NaN": ("action", lambda: fit({"action": [NAN, 1]})),
    "huge ids": ("state", lambda: fit({"state": [0, 10**9]})),
    "a missing name": ("state", lambda: fit({"state": ["a", None], "next_state": ["a", "a"]})),
    "numbers and names": ("next_state", lambda: fit({"next_state": ["a", "b"]})),
    "rewards of NaN": ("reward", lambda: fit({"reward": [0.0, NAN]})),
    "infinite rewards": ("reward", lambda: fit({"reward": [0.0, INF]})),
    "rewards in words": ("reward", lambda: fit({"reward": ["none", "much"]})),
    "rewards outside their range": ("reward", lambda: fit(reward_range=(0.0, 0.5))),
    "terminated neither true nor false": ("terminated", lambda: fit({"terminated": [0, 2]})),
    "terminated in other words": ("terminated", lambda: fit({"terminated": ["yes", "perhaps"]})),
    "states outside a given space": ("state", lambda: fit(observation_space=spaces.Discrete(1))),
    "actions outside a given space": ("action", lambda: fit(action_space=spaces.Discrete(2, start=1))),
    # files
    "a file that is not there": ("the file", lambda: tiny_agent().fit("nowhere.csv")),
    "a file of an unknown kind": ("the file", lambda: tiny_agent().fit("data.xlsx")),
    "a parquet file that is none": ("the file", lambda directory: not_parquet(directory)),
    "a file without columns": ("columns", fit_csv("")),
    "a file without rows": ("transitions", fit_csv(HEAD)),
    "a file without a header": ("the header", fit_csv("0,0,0.0,1\n1,0,0.0,0\n")),
    "a row that is too short": ("reward", fit_csv(HEAD + "0,0,0.0,1\n0,0\n")),
    "a reward in words in a file": ("reward", fit_csv(HEAD + "0,0,much,1\n")),
    "an empty cell": ("reward", fit_csv(HEAD + "0,0,,1\n")),
    "a name among ids": ("state", fit_csv(HEAD + "0,0,0.0,1\n" * 2000 + "zero,0,0.0,1\n")),
    "fractions for ids in a file": ("state", fit_csv(HEAD + "0.5,0,0.0,1\n")),
    "a column named twice": ("the header", fit_csv("state,state,action,reward,next_state\n0,0,0,0.0,1\n")),
    "an unknown flag in a file": ("a flag", fit_csv(HEAD.strip() + ",done\n0,0,0.0,1,perhaps\n")),
    "NaN in a file": ("reward", fit_csv(HEAD + "0,0,nan,1\n")),
    "a file that is not text": ("the file", lambda directory: not_text(directory)),
    "columns of an empty file": ("columns", fit_csv("", columns={"state": "place"})),
    # tables
    "counts of another shape": ("counts", lambda: Statistics.from_counts(np.zeros((2, 2)), np.zeros((2, 2)))),
    "sums of another shape": ("reward_sums", lambda: Statistics.from_counts(np.zeros((2, 1, 2)), np.zeros((2, 2)))),
    "negative counts": ("counts", lambda: Statistics.from_counts(-np.ones((2, 1, 2)), np.zeros((2, 1)))),
    "counts of NaN": ("counts", lambda: Statistics.from_counts(np.full((2, 1, 2), NAN), np.zeros((2, 1)))),
    "rewards without visits": ("reward_sums", lambda: Statistics.from_counts(np.zeros((2, 1, 2)), np.ones((2, 1)))),
    "terminal states beyond the last": (
        "terminal", lambda: Statistics.from_counts(np.zeros((2, 1, 2)), np.zeros((2, 1)), terminal=[2])),
    "transitions of different lengths": ("actions", lambda: Statistics.from_transitions([0, 1], [0], [0.0], [1, 1])),
    "float states in transitions": ("states", lambda: Statistics.from_transitions([0.5], [0], [0.0], [1])),
    "merging different actions": ("n_actions", lambda: Statistics(2, 2).merge(Statistics(2, 3))),
    "statistics that are not there": ("the file", lambda: Statistics.load("nowhere")),
}  # fmt: skip


def discover_too_much() -> None:
    agent = tiny_agent().reset(None, 2)
    codec = agent.problem.encoding.states
    assert isinstance(codec, LabelCodec)
    codec.n, codec.labels = 50_000, list(range(50_000))
    agent.act("one more")


def resume_with(discount_before: float | None = None, **options: Any) -> None:
    agent = tiny_agent()
    agent.solve("FrozenLake-v1", episodes=1, seed=0, discount=discount_before)
    agent.solve("FrozenLake-v1", episodes=1, resume=True, **options)


def not_parquet(directory: Path) -> None:
    pytest.importorskip("pyarrow")
    (directory / "data.parquet").write_text("state,action\n")
    tiny_agent().fit(directory / "data.parquet")


def not_text(directory: Path) -> None:
    (directory / "data.csv").write_bytes(b"\xff\xfe\x00\x81" * 20)
    tiny_agent().fit(directory / "data.csv")


@pytest.mark.parametrize(("field", "case"), CASES.values(), ids=CASES)
def test_malformed_input_is_refused(field: str, case: Any, tmp_path: Path) -> None:
    with pytest.raises(MdpfnError) as caught:
        case(tmp_path) if case.__code__.co_argcount else case()
    error = caught.value
    assert error.field == field
    assert all(str(part).strip() for part in (error.value, error.limit, error.remedy))
    assert str(error) == f"{error.field} is {error.value}, but {error.limit}: {error.remedy}."


def test_there_are_many_such_cases() -> None:
    assert len(CASES) >= 80


def test_limits_are_stated() -> None:
    limits = tiny_agent().limits
    assert limits.states >= 500
    assert limits.pairs >= limits.states
    assert Agent(tiny_model()).limits == limits


def test_a_discount_the_weights_do_not_know_is_said_so() -> None:
    agent = tiny_agent()
    agent.limits = type(agent.limits)(trained_discount=(0.95, 0.95))
    with pytest.warns(UserWarning, match="trained for 0.95"):
        agent.reset(2, 2, discount=0.5)
    agent.reset(2, 2, discount=0.95)


def test_too_many_distinct_transitions_are_refused_before_planning() -> None:
    agent = tiny_agent()
    statistics = Statistics(700, 1)
    state, following = np.divmod(np.arange(700 * 700), 700)
    statistics.add_transitions(state, np.zeros_like(state), np.zeros(len(state)), following)
    with pytest.raises(MdpfnError, match="distinct"):
        agent.plan(statistics)


def test_autoreset_modes_are_all_there_are() -> None:
    assert {mode.name for mode in AutoresetMode} == {"NEXT_STEP", "SAME_STEP", "DISABLED"}
