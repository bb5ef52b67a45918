"""Every kind of bad input gets one sentence that names the field, the value, the limit and the remedy."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from mdpfn import Agent, cli
from mdpfn.errors import MdpfnError
from mdpfn.evidence import Statistics, Transition
from mdpfn.model.mdp import TabularMDP
from mdpfn.network.config import NetworkConfig
from mdpfn.network.network import PolicyNetwork
from mdpfn.prior.paper import PriorConfig
from mdpfn.training.config import TrainingConfig, load_config
from mdpfn.training.loop import Trainer
from tests.interface import planner_outputs

NAN, INF = float("nan"), float("inf")
P = np.array([[[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]], [[1.0, 0.0, 0.0]] * 2, [[0.0, 0.0, 1.0]] * 2])  # S = 3, A = 2
R = np.zeros((3, 2))
COUNTS = np.zeros((3, 2, 3))
COLUMNS: dict[str, Any] = {"states": [0, 1], "actions": [0, 1], "rewards": [0.0, 1.0], "next_states": [1, 2]}


def changed(array: np.ndarray, place: tuple[int, ...], value: float) -> np.ndarray:
    copy = array.copy()
    copy[place] = value
    return copy


def refused(make: Callable[[], Any]) -> MdpfnError:
    """The error of a call that must fail, checked to be one full sentence."""
    with pytest.raises(MdpfnError) as caught:
        make()
    error = caught.value
    sentence = str(error)
    assert sentence == f"{error.field} is {error.value}, but {error.limit}: {error.remedy}."
    assert all((error.field, str(error.value), error.limit, error.remedy))
    assert "\n" not in sentence
    assert ". " not in sentence
    assert len(sentence) < 400
    return error


def mdp(transition: Any = P, reward: Any = R, **rest: Any) -> Callable[[], TabularMDP]:
    return lambda: TabularMDP.from_dense(transition, reward, **rest)


def sparse(n_actions: Any = 2, **rest: Any) -> Callable[[], TabularMDP]:
    return lambda: TabularMDP.from_sparse(csr_array(P.reshape(6, 3)), n_actions, **rest)


def test_good_input_is_accepted():
    mdp(start=1, terminal=[2], discount=0, reward_std=0.5)()
    mdp(reward=np.zeros((3, 2, 3)), start=[0.5, 0.5, 0], terminal=np.array([False, False, True]))()
    sparse(outcome_reward=np.zeros(7), reward_std=np.ones((3, 2)))()
    Statistics(np.int64(3), 2).add_transitions(**COLUMNS, terminated=[False, True])
    Statistics(3, 2).add(Transition(np.int64(0), np.int32(1), np.float32(0.5), 2))
    Statistics(3, 2).add_transitions([], [], [], [])
    Statistics.from_counts(changed(COUNTS, (0, 0, 1), 3), R, terminal=[1])


@pytest.mark.parametrize(
    ("field", "value", "make"),
    [
        ("transition", "sum 0.9 for state 1, action 1", mdp(changed(P, (1, 1, 0), 0.9))),
        ("transition", "sum 1.1 for state 2, action 0", mdp(changed(P, (2, 0, 0), 0.1))),
        ("transition", "sum 0 for", mdp(np.zeros((3, 2, 3)))),
        ("transition", "-0.5", mdp(changed(changed(P, (0, 0, 0), -0.5), (0, 0, 1), 1.5))),
        ("transition", "nan", mdp(changed(P, (0, 0, 0), NAN))),
        ("transition", "inf", mdp(changed(P, (0, 0, 0), INF))),
        ("transition", "(6, 3)", mdp(P.reshape(6, 3))),
        ("transition", "(3, 2, 2)", mdp(P[:, :, :2])),
        ("transition", "(0, 2, 0)", mdp(np.zeros((0, 2, 0)))),
        ("transition", "(3, 0, 3)", mdp(np.zeros((3, 0, 3)))),
        ("transition", "left", mdp([[["left"]]])),
        ("transition", "[[0.5, 0.5], [1.0]]", mdp([[0.5, 0.5], [1.0]])),
        ("transition", "a 6 × 3 matrix", sparse(n_actions=3)),
        ("n_actions", "0", sparse(n_actions=0)),
        ("n_actions", "2.0", sparse(n_actions=2.0)),
        ("reward", "nan", mdp(reward=changed(R, (2, 1), NAN))),
        ("reward", "inf", mdp(reward=changed(R, (0, 0), INF))),
        ("reward", "-inf", mdp(reward=np.full((3, 2, 3), -INF))),
        ("reward", "(2, 3)", mdp(reward=R.T)),
        ("reward", "(3,)", mdp(reward=R[:, 0])),
        ("reward", "(3, 2, 1)", mdp(reward=R[:, :, None])),
        ("reward", "much", mdp(reward=[["much"]])),
        ("outcome_reward", "(6,)", sparse(outcome_reward=np.zeros(6))),
        ("outcome_reward", "nan", sparse(outcome_reward=np.full(7, NAN))),
        ("reward_std", "-1.0", mdp(reward_std=-1)),
        ("reward_std", "nan", mdp(reward_std=NAN)),
        ("reward_std", "(2,)", mdp(reward_std=[1, 2])),
        ("discount", "1", mdp(discount=1)),
        ("discount", "1.0", mdp(discount=1.0)),
        ("discount", "-0.1", mdp(discount=-0.1)),
        ("discount", "nan", mdp(discount=NAN)),
        ("discount", "inf", mdp(discount=INF)),
        ("discount", "'0.9'", mdp(discount="0.9")),
        ("discount", "None", mdp(discount=None)),
        ("start", "3", mdp(start=3)),
        ("start", "-1", mdp(start=-1)),
        ("start", "0.5", mdp(start=0.5)),
        ("start", "sum 0.5", mdp(start=[0.5, 0, 0])),
        ("start", "(2,)", mdp(start=[0.5, 0.5])),
        ("start", "nan", mdp(start=[NAN, 0, 0])),
        ("start", "sum 1", mdp(start=[-1, 1, 1])),
        ("terminal", "3", mdp(terminal=[3])),
        ("terminal", "-1", mdp(terminal=[-1])),
        ("terminal", "1.5", mdp(terminal=[1.5])),
        ("terminal", "nan", mdp(terminal=[NAN])),
        ("terminal", "a mask of shape (2,)", mdp(terminal=[True, False])),
        ("terminal", "of type", mdp(terminal=["end"])),
        ("terminal", "[[0], [1, 2]]", mdp(terminal=[[0], [1, 2]])),
    ],
)  # fmt: skip
def test_mdp(field, value, make):
    error = refused(make)
    assert error.field == field
    assert value in str(error.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("state", -1), ("state", 3), ("state", 0.5), ("state", 1.0), ("state", "1"), ("state", None), ("state", NAN),
        ("action", -1), ("action", 2), ("action", 0.5), ("action", [0]),
        ("next_state", -1), ("next_state", 3), ("next_state", 2.5),
        ("reward", NAN), ("reward", INF), ("reward", -INF), ("reward", "1"), ("reward", None), ("reward", 1j),
        ("reward", 1e151), ("reward", -1e300),
    ],
)  # fmt: skip
def test_one_transition(field, value):
    statistics = Statistics(3, 2)
    transition = {"state": 0, "action": 0, "reward": 0.0, "next_state": 0, field: value}
    error = refused(lambda: statistics.add(Transition(**transition)))
    assert (error.field, error.value) == (field, repr(value))
    assert statistics.n_transitions == 0


@pytest.mark.parametrize("make", [Statistics(3, 2).add_transitions, Statistics.from_transitions])
@pytest.mark.parametrize(
    ("field", "column", "value"),
    [
        ("states", [0, -1], "-1"), ("states", [0, 0.5], "0.5"), ("states", [0, NAN], "nan"),
        ("states", [0, INF], "inf"), ("states", [0, 1e300], "1e+300"), ("states", ["a", "b"], "of type <U1"),
        ("states", [[0], [1, 2]], "[[0], [1, 2]]"),
        ("states", [0, None], "of type object"), ("actions", [0, -1], "-1"), ("actions", [0.5, 0], "0.5"),
        ("actions", [0], "of length 1"), ("next_states", [0, -1], "-1"), ("next_states", [0, 1.5], "1.5"),
        ("next_states", [0, 1, 2], "of length 3"), ("rewards", [0, NAN], "nan"), ("rewards", [INF, 0], "inf"),
        ("rewards", [1.0], "of length 1"), ("rewards", ["good", "bad"], "good"),
        ("terminated", [True], "of length 1"), ("terminated", [True] * 3, "of length 3"),
    ],
)  # fmt: skip
def test_many_transitions(make, field, column, value):
    error = refused(lambda: make(**{**COLUMNS, field: column}))
    assert error.field == field
    assert value in str(error.value)


@pytest.mark.parametrize(("field", "column"), [("states", [0, 3]), ("actions", [2, 0]), ("next_states", [3, 0])])
def test_ids_beyond_the_space(field, column):
    statistics = Statistics(3, 2)
    error = refused(lambda: statistics.add_transitions(**{**COLUMNS, field: column}))
    assert error.field == field
    assert "ids run from 0 to" in error.limit
    assert statistics.n_transitions == 0


@pytest.mark.parametrize(
    ("field", "value", "make"),
    [
        ("n_states", "0", lambda: Statistics(0, 2)),
        ("n_states", "2.5", lambda: Statistics(2.5, 2)),
        ("n_states", "nan", lambda: Statistics(NAN, 2)),
        ("n_states", "'3'", lambda: Statistics("3", 2)),
        ("n_actions", "-1", lambda: Statistics(3, -1)),
        ("n_actions", "inf", lambda: Statistics(3, INF)),
        ("n_actions", "3", lambda: Statistics(3, 2).merge(Statistics(3, 3))),
        ("counts", "-1.0", lambda: Statistics.from_counts(changed(COUNTS, (0, 0, 0), -1), R)),
        ("counts", "0.5", lambda: Statistics.from_counts(changed(COUNTS, (0, 0, 0), 0.5), R)),
        ("counts", "nan", lambda: Statistics.from_counts(changed(COUNTS, (0, 0, 0), NAN), R)),
        ("counts", "inf", lambda: Statistics.from_counts(changed(COUNTS, (0, 0, 0), INF), R)),
        ("counts", "(3, 2)", lambda: Statistics.from_counts(R, R)),
        ("counts", "(3, 2, 2)", lambda: Statistics.from_counts(COUNTS[:, :, :2], R)),
        ("counts", "many", lambda: Statistics.from_counts("many", R)),
        ("reward_sums", "(2, 3)", lambda: Statistics.from_counts(COUNTS, R.T)),
        ("reward_sums", "nan", lambda: Statistics.from_counts(COUNTS, changed(R, (0, 0), NAN))),
        ("reward_sums", "unvisited", lambda: Statistics.from_counts(COUNTS, changed(R, (0, 0), 1))),
        ("terminal", "3", lambda: Statistics.from_counts(COUNTS, R, terminal=[3])),
        ("terminal", "(4,)", lambda: Statistics.from_counts(COUNTS, R, terminal=[True] * 4)),
    ],
)
def test_statistics(field, value, make):
    error = refused(make)
    assert error.field == field
    assert value in str(error.value)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (NetworkConfig, "width", 12), (NetworkConfig, "width", 0), (NetworkConfig, "width", -8),
        (NetworkConfig, "width", 8.0), (NetworkConfig, "n_heads", 0), (NetworkConfig, "n_heads", -1),
        (NetworkConfig, "depth", -1), (NetworkConfig, "depth", 1.5), (NetworkConfig, "depth", "3"),
        (NetworkConfig, "depth", True), (NetworkConfig, "dropout", 1.0), (NetworkConfig, "dropout", -0.1),
        (NetworkConfig, "dropout", NAN), (NetworkConfig, "dropout", None), (NetworkConfig, "transition_bias", INF),
        (PriorConfig, "discount", 1.0), (PriorConfig, "discount", -1), (PriorConfig, "discount", NAN),
        (PriorConfig, "n_states", (0, 4)), (PriorConfig, "n_states", (5, 4)), (PriorConfig, "n_states", (2, 4.5)),
        (PriorConfig, "n_states", 4), (PriorConfig, "n_actions", (2,)), (PriorConfig, "n_actions", (-1, 2)),
        (PriorConfig, "concentration", (0.0, 1.0)), (PriorConfig, "concentration", (0.1, INF)),
        (PriorConfig, "max_outdegree", 0), (PriorConfig, "max_outdegree", 2.5),
        (TrainingConfig, "batch_size", 0), (TrainingConfig, "batch_size", 2.5), (TrainingConfig, "batch_size", "many"),
        (TrainingConfig, "steps", 0), (TrainingConfig, "steps", -1), (TrainingConfig, "warmup_steps", -1),
        (TrainingConfig, "validation_mdps", 0), (TrainingConfig, "validate_every", 0),
        (TrainingConfig, "checkpoint_every", 0), (TrainingConfig, "seed", -1), (TrainingConfig, "seed", 2**32),
        (TrainingConfig, "learning_rate", 0), (TrainingConfig, "learning_rate", NAN),
        (TrainingConfig, "final_learning_rate", 1.5), (TrainingConfig, "final_learning_rate", -0.5),
        (TrainingConfig, "weight_decay", -0.1), (TrainingConfig, "gradient_clip", 0.0),
        (TrainingConfig, "target_temperature", 0.0), (TrainingConfig, "average_decay", 1.0),
        (TrainingConfig, "average_decay", -0.1), (TrainingConfig, "budget", (0, 1)), (TrainingConfig, "budget", (2, 1)),
        (TrainingConfig, "budget", (1, INF)), (TrainingConfig, "budget", 3.0), (TrainingConfig, "optimizer", "sgd"),
        (TrainingConfig, "min_depth", 0), (TrainingConfig, "min_depth", 21), (TrainingConfig, "min_depth", 1.5),
        (TrainingConfig, "max_depth", "deep"), (TrainingConfig, "start_from", 7),
    ],
)  # fmt: skip
def test_configuration(tmp_path, kind, field, value):
    """The same error whether the value is given in Python or in a file."""
    error = refused(lambda: kind(**{field: value}))
    assert error.field == field
    assert str(value) in str(error.value)
    outer = {NetworkConfig: "network", PriorConfig: "prior"}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({outer[kind]: {field: value}} if kind in outer else {field: value}))
    assert str(refused(lambda: load_config(str(path)))) == str(error)


@pytest.mark.parametrize(
    ("field", "text", "says"),
    [
        ("config", "{", "valid JSON"),
        ("config", "", "valid JSON"),
        ("config", "{'steps': 3}", "valid JSON"),
        ("config", "\x00", "valid JSON"),
        ("TrainingConfig", "[]", "JSON object"),
        ("TrainingConfig", "3", "JSON object"),
        ("TrainingConfig", '{"stepz": 3}', "stepz"),
        ("NetworkConfig", '{"network": {"widht": 3}}', "widht"),
        ("NetworkConfig", '{"network": 3}', "JSON object"),
        ("NetworkConfig", '{"network": null}', "JSON object"),
        ("PriorConfig", '{"prior": {"n_state": [2, 3]}}', "n_state"),
        ("PriorConfig", '{"prior": "mine"}', "mine"),
        ("learning_rate", '{"learning_rate": Infinity}', "inf"),
        ("steps", '{"steps": null}', "None"),
        ("steps", '{"steps": true}', "True"),
    ],
)
def test_configuration_file(tmp_path, field, text, says):
    path = tmp_path / "config.json"
    path.write_text(text)
    error = refused(lambda: load_config(str(path)))
    assert error.field == field
    assert says in str(error)


def test_configuration_file_that_is_not_text(tmp_path):
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00")
    assert refused(lambda: load_config(str(tmp_path / "config.json"))).field == "config"


@pytest.mark.parametrize("name", ["nothing.json", "larger", "", "."])
def test_configuration_that_does_not_exist(name):
    error = refused(lambda: load_config(name))
    assert (error.field, error.value) == ("config", repr(name))


def test_configurations_survive_a_file(tmp_path):
    config = TrainingConfig(network=NetworkConfig(width=16), min_depth=3, optimizer="muon", budget=(1, 2.5))
    (tmp_path / "config.json").write_text(json.dumps(asdict(config)))
    assert load_config(str(tmp_path / "config.json")) == config


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("depth", value) for value in (-1, 1.5, "2", NAN, INF)),
        *(("transition_bias", value) for value in ("2", NAN, INF)),
    ],
)
def test_overrides_at_use(field, value):
    network = PolicyNetwork(NetworkConfig(width=4, n_heads=1, depth=1)).eval()
    statistics = Statistics(2, 2).table()
    error = refused(lambda: planner_outputs(network, statistics, **{field: value}))
    assert error.field == field
    assert str(value) in str(error.value)


@pytest.mark.parametrize(
    ("column", "value"),
    [("state", 10**5000), ("terminated", [1, [2]]), ("terminated", np.zeros((2, 4))), ("truncated", np.zeros((2, 4)))],
    ids=["a number too long to write", "ragged flags", "flags in a table", "the same of the other kind"],
)
def test_columns_that_are_none(column, value):
    log = {"state": [0, 1], "action": [0, 1], "reward": [0.0, 1.0], "next_state": [1, 0], column: value}
    assert refused(lambda: Agent.from_pretrained().fit(log)).field == column


def test_start_from(tmp_path):
    error = refused(lambda: Trainer(TrainingConfig(start_from="no-such-model"), tmp_path))
    assert error.value == "'no-such-model'"


@pytest.mark.parametrize("minutes", [0, -1, NAN, INF])
def test_time_limit(tmp_path, minutes):
    assert refused(lambda: Trainer(TrainingConfig(), tmp_path, minutes)).field == "minutes"


class TestCommandLine:
    """A user's mistake ends in exit code 2 and one sentence on stderr."""

    def run(self, monkeypatch, capsys, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["mdpfn", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        assert caught.value.code == 2
        error: str = capsys.readouterr().err
        return error

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["train", "--config", "larger"], "config is 'larger'"),
            (["train", "--steps", "0"], "steps is 0"),
            (["train", "--minutes", "-3"], "minutes is -3.0"),
            (["train", "--minutes", "nan"], "minutes is nan"),
            (["train", "--minutes", "3", "--steps", "3"], "cannot be given together"),
            (["prior", "--show", "0"], "show is 0"),
            (["info", "no-such-model"], "weights is 'no-such-model'"),
        ],
    )
    def test_mistakes(self, monkeypatch, capsys, tmp_path, arguments, says):
        if arguments[0] != "info":
            arguments = [*arguments, "--out", tmp_path / "out"]
        error = self.run(monkeypatch, capsys, *arguments)
        assert error.startswith("mdpfn: ")
        assert says in error
        assert error.count("\n") == 1
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        "arguments",
        [
            [],
            ["trian"],
            ["train"],
            ["train", "--out", "x", "--steps", "few"],
            ["train", "--out", "x", "--resume", "maybe"],
        ],
    )
    def test_unknown_arguments(self, monkeypatch, capsys, arguments):
        assert "Traceback" not in self.run(monkeypatch, capsys, *arguments)

    def test_places_that_cannot_be_written(self, monkeypatch, capsys, tmp_path):
        (tmp_path / "file").touch()
        for command in (["train", "--config", "tiny"], ["prior"]):
            place: Path = tmp_path / "file" / "x.png"
            error = self.run(monkeypatch, capsys, *command, "--out", place)
            assert str(place) in error
            assert error.count("\n") == 1
