"""A policy as JSON says in Python and in JavaScript what `predict` says."""

from __future__ import annotations

import json
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from examples import policy_reader

from mdpfn import Agent, MdpfnError

NODE = shutil.which("node")
READER = Path(policy_reader.__file__).with_suffix(".js")


def in_javascript(path: Path, questions: list[Any]) -> list[Any]:
    """The answers of the JavaScript reader to [observation, mask] pairs."""
    code = f"const {{ read, bestAction }} = require({json.dumps(str(READER))}); const fs = require('fs');"
    code += f"const policy = read(JSON.parse(fs.readFileSync({json.dumps(str(path))}, 'utf8')));"
    code += "const asked = JSON.parse(fs.readFileSync(0, 'utf8'));"
    code += "console.log(JSON.stringify(asked.map(([observation, mask]) => bestAction(policy, observation, mask))));"
    done = subprocess.run(
        [str(NODE), "-e", code], input=json.dumps(questions), capture_output=True, text=True, check=True
    )
    answers: list[Any] = json.loads(done.stdout)
    return answers


def check_readers(path: Path, questions: list[Any], expected: list[Any]) -> None:
    policy = policy_reader.load(path)
    assert [policy_reader.best_action(policy, *question) for question in questions] == expected
    if NODE is None:
        pytest.skip("node is not installed, so that only the Python reader was tested")
    assert in_javascript(path, questions) == expected


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_tables_of_numbers_with_masks(tmp_path: Path) -> None:
    agent = Agent.from_pretrained()
    agent.solve(gym.make("Taxi-v4"), 8, seed=0)
    agent.export(tmp_path / "policy.json")
    rng = np.random.default_rng(0)
    masks = rng.random((500, 6)) < 0.5
    masks[:, 0] = True
    questions: list[Any] = [[state, None] for state in range(500)] + [[s, masks[s].tolist()] for s in range(500)]
    expected = [int(agent.predict(s, on_unknown="best")[0]) for s in range(500)]
    expected += [int(agent.predict(s, action_mask=masks[s], on_unknown="best")[0]) for s in range(500)]
    check_readers(tmp_path / "policy.json", questions, expected)
    content = json.loads((tmp_path / "policy.json").read_text())
    assert np.allclose(np.sum(content["policy"], axis=1), 1, atol=1e-4)
    assert np.array_equal(content["values"], content["values"])
    exists = np.array(content["masks"])
    assert all((row is None) == (not here) for rows, there in zip(content["q"], exists, strict=True)
               for row, here in zip([None if q[0] is None else q for q in rows], there, strict=True))  # fmt: skip
    assert content["provenance"]["transitions"] == agent.statistics.n_transitions
    assert content["provenance"]["sha256"] == agent.model.card["sha256"]


def test_names_tuples_and_what_never_appeared(tmp_path: Path) -> None:
    there, back = (("küche", 1), "gehen", 1.0, ("flur", 2)), (("flur", 2), "bleiben", 0.0, ("küche", 1))
    stays = (("küche", 1), "bleiben", 0.0, ("küche", 1))
    agent = Agent.from_pretrained()
    agent.fit([stays, there, back] * 3)
    agent.export(tmp_path / "policy.json")
    seen = [("küche", 1), ("flur", 2)]
    questions = [[list(state), None] for state in [*seen, ("keller", 0)]]
    expected = [agent.predict(state, on_unknown="best")[0] for state in [*seen, ("keller", 0)]]
    check_readers(tmp_path / "policy.json", questions, expected)


def test_nodes_of_vectors_act_as_well_as_the_agent(tmp_path: Path) -> None:
    agent = Agent.from_pretrained()
    agent.solve(gym.make("MountainCar-v0"), 4, seed=0)
    agent.export(tmp_path / "policy.json")
    policy = policy_reader.load(tmp_path / "policy.json")
    env = gym.make("MountainCar-v0")
    returns, visited = [], []
    for seed in range(3):
        observation, total, done = env.reset(seed=seed)[0], 0.0, False
        while not done:
            visited.append(observation.tolist())
            action = policy_reader.best_action(policy, observation.tolist())
            observation, reward, terminated, truncated, _ = env.step(action)
            total, done = total + float(reward), terminated or truncated
        returns.append(total)
    assert np.mean(returns) > -190  # at −200 every episode is broken off
    check_readers(tmp_path / "policy.json", [[x, None] for x in visited],
                  [policy_reader.best_action(policy, x) for x in visited])  # fmt: skip


@pytest.mark.parametrize("columns", ["temp", ["temp", "mode"]])
def test_readers_put_numbers_into_bins(columns: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    temp, mode = rng.normal(20, 3, 400), rng.choice(["eco", "max"], 400)
    action = rng.choice(["on", "off"], 400)
    reward = np.where((action == "on") == (temp < 20), 1.0, 0.0)
    log = {"temp": temp, "mode": mode, "action": action, "reward": reward, "time": np.arange(400)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agent = Agent.from_pretrained().fit(log, columns={"state": columns}, bins={"temp": 4})
    agent.export(tmp_path / "policy.json")
    asked = [float(x) for x in (5.0, 19.0, 20.5, 35.0, *temp[:20])]
    asked = asked if columns == "temp" else [[x, str(m)] for x, m in zip(asked, mode, strict=False)]
    expected = [agent.predict(x if columns == "temp" else tuple(x))[0] for x in asked]
    assert {"on", "off"} <= set(expected)
    check_readers(tmp_path / "policy.json", [[x, None] for x in asked], expected)
    content = json.loads((tmp_path / "policy.json").read_text())
    assert "temp <" in str(content["labels"])


def test_a_new_agent_has_nothing_to_export(tmp_path: Path) -> None:
    with pytest.raises(MdpfnError):
        Agent.from_pretrained().export(tmp_path / "policy.json")
    assert not (tmp_path / "policy.json").exists()
