"""An agent saved in the middle of a run goes on as if nothing had happened."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from safetensors.numpy import save

from mdpfn import Agent, MdpfnError
from mdpfn.online.options import Options
from mdpfn.spaces.json import space_from_json, space_to_json
from mdpfn.storage import read_bundle, write_bundle
from mdpfn.weights import DEFAULT_WEIGHTS, save_model, shipped_models
from tests.interface import contents, tiny_agent, tiny_model
from tests.planned import planned_model


def run_on(agent: Agent, env: Any, observation: Any, n: int) -> tuple[list[Any], Any]:
    """The actions of the next n steps, and where they led."""
    actions = []
    for _ in range(n):
        action = agent.act(observation)
        following, reward, terminated, truncated, _ = env.step(action)
        agent.observe(observation, action, float(reward), following, terminated=terminated, truncated=truncated)
        observation = env.reset()[0] if terminated or truncated else following
        actions.append(action)
    return actions, observation


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Blackjack-v1"])
@pytest.mark.parametrize("steps", [0, 1, 37])
def test_a_saved_agent_goes_on_bit_by_bit(name: str, steps: int, tmp_path: Path) -> None:
    worlds = gym.make(name), gym.make(name)
    agent = tiny_agent(depth=4, acting_temperature=0.7)
    agent.reset(worlds[0].observation_space, worlds[0].action_space, reward_range=(-1, 1), replan_every=11, seed=5)
    _, there = run_on(agent, worlds[0], worlds[0].reset(seed=5)[0], steps)
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent")
    twin = run_on(tiny_agent(depth=4, acting_temperature=0.7).reset(
        worlds[1].observation_space, worlds[1].action_space, reward_range=(-1, 1), replan_every=11, seed=5
    ), worlds[1], worlds[1].reset(seed=5)[0], steps)  # fmt: skip
    assert twin[1] == there
    on = run_on(agent, worlds[0], there, 60)
    assert run_on(again, worlds[1], there, 60) == on
    assert contents(again.statistics) == contents(agent.statistics)
    np.testing.assert_array_equal(again.plan().policy_logits, agent.plan().policy_logits)
    np.testing.assert_array_equal(again.result.returns, agent.result.returns)
    assert again.problem.history.discounted_returns == agent.problem.history.discounted_returns
    assert again.problem.learner.clock == agent.problem.learner.clock
    assert again.result.coverage.start_states == agent.result.coverage.start_states


@pytest.mark.parametrize(
    ("observation_space", "observations"),
    [
        (None, [("a", 1), ("b", 2.5), "c", True, 7]),
        (["low", "high"], ["low", "high"]),
        (spaces.Dict({"x": spaces.MultiDiscrete([3, 2]), "y": spaces.Discrete(2)}), [{"x": np.array([2, 1]), "y": 0}]),
        (spaces.MultiDiscrete([50] * 6), [np.arange(6), np.arange(6)[::-1].copy()]),
        (spaces.Text(5), ["ab", "c"]),
    ],
)
def test_names_are_kept(observation_space: Any, observations: list[Any], tmp_path: Path) -> None:
    agent = tiny_agent().reset(observation_space, ["wait", "repair"], seed=0)
    for observation in observations:
        agent.observe(observation, "repair", 1.0, observations[0], terminated=False)
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent")
    assert str(again.plan().states) == str(agent.plan().states)
    assert again.plan().actions == ["wait", "repair"]
    assert contents(again.statistics) == contents(agent.statistics)
    assert again.predict(observations[-1]) == agent.predict(observations[-1])


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Blackjack-v1", "MountainCar-v0"])
def test_an_agent_that_has_learned_can_be_pickled(name: str) -> None:
    agent = tiny_agent()
    agent.solve(gym.make(name, max_episode_steps=60), 2, seed=0)
    again = pickle.loads(pickle.dumps(agent))
    observation = gym.make(name).reset(seed=1)[0]
    assert again.predict(observation, on_unknown="best")[0] == agent.predict(observation, on_unknown="best")[0]
    assert again.num_timesteps == agent.num_timesteps


def test_what_it_knows_of_combined_spaces_can_be_pickled() -> None:
    space = spaces.Dict(
        {"x": spaces.MultiDiscrete([3, 2]), "y": spaces.Tuple((spaces.Discrete(2), spaces.MultiBinary(2)))}
    )
    agent = tiny_agent().reset(space, spaces.MultiDiscrete([2, 2]), seed=0)
    space.seed(0)
    before, after = space.sample(), space.sample()
    agent.observe(before, np.array([0, 1]), 1.0, after, terminated=True)
    agent.plan()
    for thing in (agent, agent.plan(), agent.statistics, agent.result):
        assert len(pickle.dumps(pickle.loads(pickle.dumps(thing)))) > 0
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(agent)).predict(before)[0], agent.predict(before)[0])


def test_fitted_agents_and_new_ones_can_be_saved(tmp_path: Path) -> None:
    fitted = tiny_agent().fit({"s": ["x", "y"], "a": [0, 0], "r": [0.0, 1.0], "s_next": ["y", "x"]})
    fitted.save(tmp_path / "fitted")
    again = Agent.load(tmp_path / "fitted")
    assert again.result.columns == fitted.result.columns
    assert again.predict("x") == fitted.predict("x")
    tiny_agent(depth=2).save(tmp_path / "new")
    with pytest.raises(MdpfnError, match="reset, solve or fit"):
        Agent.load(tmp_path / "new").act(0)


def test_models_are_loaded_by_path_and_copied_into_agents(tmp_path: Path) -> None:
    save_model(tmp_path / "model.safetensors", tiny_model().network, {"notes": "untrained"})
    agent = Agent.from_pretrained(tmp_path / "model.safetensors")
    assert agent.model.name == "model"
    agent.save(tmp_path / "agent")
    (tmp_path / "model.safetensors").unlink()
    assert Agent.load(tmp_path / "agent").model.card["notes"] == "untrained"


@pytest.mark.skipif(DEFAULT_WEIGHTS not in shipped_models(), reason="no default weights are shipped")
def test_shipped_weights_are_saved_by_name(tmp_path: Path) -> None:
    Agent.from_pretrained().save(tmp_path / "named")
    Agent.from_pretrained().save(tmp_path / "copied", copy_weights=True)
    assert (tmp_path / "named").stat().st_size < 2000 < 100_000 < (tmp_path / "copied").stat().st_size
    networks = [Agent.load(tmp_path / kind).model.network for kind in ("named", "copied")]
    assert all((a == b).all() for a, b in zip(*(n.weights.values() for n in networks), strict=True))


def test_damage_is_noticed(tmp_path: Path) -> None:
    agent = tiny_agent().reset(3, 2)
    agent.observe(0, 1, 1.0, 2, terminated=False)
    path = tmp_path / "agent"
    agent.save(path)
    good = path.read_bytes()
    path.write_bytes(good.replace(b"directed", b"undirect").replace(b"softmax", b"maxsoft"))
    with pytest.raises(MdpfnError, match="checksums do not hold"):
        Agent.load(path)
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(MdpfnError, match="checksums do not hold"):
        Agent.load(path)
    for damaged in (good[:-1], good[: len(good) // 2], good[:7], b""):
        path.write_bytes(damaged)
        with pytest.raises(MdpfnError, match="must hold arrays"):
            Agent.load(path)
    with pytest.raises(MdpfnError, match="no such file: check the path"):
        Agent.load(tmp_path / "nowhere")
    with pytest.raises(MdpfnError) as refused:
        Agent.load(tmp_path)
    assert str(refused.value).count(" but ") == 1  # one sentence, not one inside another


def test_what_is_no_agent_is_refused(tmp_path: Path) -> None:
    agent = tiny_agent().reset(3, 2)
    agent.save(tmp_path / "agent")
    arrays, description = read_bundle(tmp_path / "agent")
    write_bundle(tmp_path / "other", arrays, {**description, "kind": "something else"})
    with pytest.raises(MdpfnError, match="must hold an agent"):
        Agent.load(tmp_path / "other")
    write_bundle(tmp_path / "newer", arrays, {**description, "format": 99})
    with pytest.raises(MdpfnError, match="match the versions"):
        Agent.load(tmp_path / "newer")


def as_version_0_1(path: Path, directory: Path) -> None:
    """What version 0.1 would have left of this agent: a directory of three files, with fewer arrays."""
    arrays, description = read_bundle(path)
    new = {"statistics.reward_square_sum", "statistics.duration", "statistics.forbidden", "statistics.forbidden_mdp"}
    kept = {name: array for name, array in arrays.items() if name not in new and not name.startswith("explorer.")}
    context = description["context"]
    clock, history = context.pop("clock"), context["history"]
    del history["discounted_returns"]
    history["under_way"] = [(i, (total, length)) for i, (total, _, length) in history["under_way"]]
    options = {name: context["options"][name] for name in ("discount", "reward_range", "replan_every", "risk")}
    explorer = {"episode": clock["episode"], "steps_since_plan": clock["steps_since_plan"], "news": 0}
    old = {"options": options, "steps_since_plan": clock["steps_since_plan"], "explorer": explorer}
    data = save(kept)
    sealed = {**description, "format": 1, "context": {**context, **old}, "sha256": hashlib.sha256(data).hexdigest()}
    text = json.dumps(sealed).encode()
    directory.mkdir()
    (directory / "tensors.safetensors").write_bytes(data)
    (directory / "description.json").write_bytes(text)
    (directory / "description.sha256").write_text(f"{hashlib.sha256(text).hexdigest()}  description.json\n")


@pytest.mark.parametrize("make", [tiny_agent, lambda: Agent(planned_model())], ids=["softmax", "directed"])
def test_agents_of_version_0_1_go_on(make: Callable[[], Agent], tmp_path: Path) -> None:
    env = gym.make("FrozenLake-v1")
    agent = make().reset(env.observation_space, env.action_space, reward_range=(0, 1), seed=5)
    run_on(agent, env, env.reset(seed=5)[0], 30)
    agent.save(tmp_path / "new")
    as_version_0_1(tmp_path / "new", tmp_path / "old")
    again = Agent.load(tmp_path / "old")
    assert again.plan().greedy.tolist() == agent.plan().greedy.tolist()
    assert again.result.returns.tolist() == agent.result.returns.tolist()
    ours, theirs = agent.statistics.table(), again.statistics.table()
    for name in ("pair", "n_visits", "reward_sum", "successor", "transition_count", "n_terminated"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    clocks = agent.problem.learner.clock, again.problem.learner.clock
    assert (clocks[0].episode, clocks[0].step) == (clocks[1].episode, clocks[1].step)
    assert again.problem.options == agent.problem.options
    run_on(again, env, env.reset(seed=6)[0], 30)
    again.save(tmp_path / "present")
    assert Agent.load(tmp_path / "present").statistics.n_transitions == 60
    (tmp_path / "old" / "description.json").write_text("{}")
    with pytest.raises(MdpfnError, match="damaged"):
        Agent.load(tmp_path / "old")


def test_an_agent_is_one_file_and_takes_the_place_of_the_last_one(tmp_path: Path) -> None:
    agent = tiny_agent().reset(3, 2)
    for _ in range(2):
        agent.observe(0, 1, 1.0, 2, terminated=False)
        agent.save(tmp_path / "deep" / "agent of mine")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["agent of mine"]
    assert Agent.load(tmp_path / "deep" / "agent of mine").statistics.n_transitions == 2


def test_a_directory_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(MdpfnError, match="directory"):
        tiny_agent().save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    assert (tmp_path / "thesis.tex").read_text() == "precious"


def test_an_agent_takes_numbers_of_numpy(tmp_path: Path) -> None:
    agent = Agent(tiny_model(), depth=np.int64(2), acting_temperature=np.float32(0.5)).reset(3, 2)
    agent.observe(0, 0, np.array(1.0), 1, terminated=False)
    agent.save(tmp_path / "agent")
    assert Agent.load(tmp_path / "agent").statistics.reward_max == 1.0


def test_numbers_of_numpy_are_saved_and_compared_as_numbers(tmp_path: Path) -> None:
    """Many environments pay float32, and bounds often come from arrays."""
    agent = tiny_agent().reset(
        2, 2, discount=np.float32(0.5), reward_range=np.array([0.0, 1e4]), replan_every=np.int64(3)
    )
    for _ in range(10):
        agent.observe(0, 1, np.float16(1e4), 1, terminated=False)
    agent.observe(0, 1, np.float32(0), 1, terminated=True)
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent")
    assert again.problem.options == agent.problem.options == Options(0.5, (0, 1e4), 3)
    assert again.statistics.table().reward_sum.tolist() == [float(np.float16(1e4)) * 10]
    assert again.result.returns.tolist() == [float(np.float16(1e4)) * 10]


@pytest.mark.parametrize("space", [gym.spaces.Discrete(3, dtype=np.int32), gym.spaces.Text(2, charset="ab")])
def test_spaces_are_the_same_after_loading(space: gym.Space[Any]) -> None:
    assert space_from_json(json.loads(json.dumps(space_to_json(space)))) == space
