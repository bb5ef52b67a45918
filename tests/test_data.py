"""Logged data from every source: the same transitions make the same statistics and plans."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from gymnasium import spaces

from mdpfn import Agent, MdpfnError, Statistics
from mdpfn.coverage import CoverageWarning
from mdpfn.data import csv_file, sources
from mdpfn.evidence.absorbing import with_absorbing
from mdpfn.network.tensors import to_numpy
from mdpfn.weights import Model
from tests.interface import contents, tiny_agent
from tests.planned import random_network

pytestmark = pytest.mark.filterwarnings("ignore::mdpfn.plan.UnknownStateWarning")

ROLES = ("state", "action", "reward", "next_state", "terminated", "truncated")


@pytest.fixture(scope="module")
def columns() -> dict[str, np.ndarray]:
    """Random episodes on FrozenLake."""
    env = gym.make("FrozenLake-v1")
    env.action_space.seed(0)
    state, _ = env.reset(seed=0)
    rows = []
    for _ in range(700):
        action = env.action_space.sample()
        following, reward, terminated, truncated, _ = env.step(action)
        rows.append((int(state), int(action), float(reward), int(following), terminated, truncated))
        state = env.reset()[0] if terminated or truncated else following
    return {role: np.array(column) for role, column in zip(ROLES, zip(*rows, strict=True), strict=True)}


@pytest.fixture(scope="module")
def expected(columns: dict[str, np.ndarray]) -> Statistics:
    return Statistics.from_transitions(*(columns[role] for role in ROLES[:5]), n_states=16, n_actions=4)


def write_csv(path: Path, columns: dict[str, Any], delimiter: str = ",") -> Path:
    opened: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt") as file:
        file.write(delimiter.join(columns) + "\n")
        file.writelines(delimiter.join(map(str, row)) + "\n" for row in zip(*columns.values(), strict=True))
    return path


def in_chunks(columns: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for start in range(0, 700, 100):
        yield {role: values[start : start + 100] for role, values in columns.items()}


def to_frame(package: str) -> Callable[[dict[str, Any], Path], Any]:
    return lambda columns, _: pytest.importorskip(package).DataFrame(columns)


def to_parquet(columns: dict[str, Any], directory: Path) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), directory / "data.parquet")
    return directory / "data.parquet"


SOURCES: dict[str, Callable[[dict[str, Any], Path], Any]] = {
    "arrays": lambda columns, _: tuple(columns.values()),
    "matrix": lambda columns, _: np.column_stack([c.astype(float) for c in columns.values()]),
    "mapping": lambda columns, _: columns,
    "lists": lambda columns, _: {role: values.tolist() for role, values in columns.items()},
    "tuples": lambda columns, _: list(zip(*(values.tolist() for values in columns.values()), strict=True)),
    "structured": lambda columns, _: np.rec.fromarrays(list(columns.values()), names=list(columns)),
    "iterator": lambda columns, _: in_chunks(columns),
    "pandas": to_frame("pandas"),
    "polars": to_frame("polars"),
    "lazy polars": lambda columns, _: pytest.importorskip("polars").DataFrame(columns).lazy(),
    "csv": lambda columns, directory: write_csv(directory / "data.csv", columns),
    "tsv": lambda columns, directory: write_csv(directory / "data.tsv", columns, "\t"),
    "gzip": lambda columns, directory: write_csv(directory / "data.csv.gz", columns, ";"),
    "parquet": to_parquet,
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_every_source_gives_the_same_statistics(
    make: Callable[[dict[str, Any], Path], Any],
    columns: dict[str, np.ndarray],
    expected: Statistics,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "ROWS", 150)
    monkeypatch.setattr(csv_file, "ROWS", 150)
    agent = tiny_agent().fit(make(columns, tmp_path))
    assert contents(agent.statistics) == contents(expected)
    assert agent.result.coverage.start_states == {0: 1 + int((columns["terminated"] | columns["truncated"])[:-1].sum())}
    assert agent.plan().policy.shape == (16, 4)


@pytest.mark.parametrize("make", [SOURCES[name] for name in ("mapping", "pandas", "polars", "csv", "parquet")])
def test_states_and_actions_may_have_names(
    make: Callable[[dict[str, Any], Path], Any], columns: dict[str, np.ndarray], expected: Statistics, tmp_path: Path
) -> None:
    moves = np.array(["left", "down", "right", "up and away"])
    named = {
        "s": [f"cell {i}" for i in columns["state"]],
        "a": moves[columns["action"]].tolist(),
        "r": columns["reward"],
        "s_next": [f"cell {i}" for i in columns["next_state"]],
        "done": columns["terminated"] | columns["truncated"],
        "timeout": columns["truncated"],
    }
    agent = tiny_agent().fit(make(named, tmp_path))
    result = agent.result
    assert set(result.plan.actions) == set(moves.tolist())
    state = [int(name.split()[1]) for name in result.plan.states]
    action = [moves.tolist().index(name) for name in result.plan.actions]
    counts, sums = agent.statistics.dense_counts()
    true_counts, true_sums = expected.dense_counts()
    np.testing.assert_array_equal(counts, true_counts[np.ix_(state, action, state)])
    np.testing.assert_allclose(sums, true_sums[np.ix_(state, action)])
    assert {state[i] for i in agent.statistics.terminal} == expected.terminal
    assert result.columns == dict(zip(ROLES, named, strict=True))
    assert "state = s" in str(result)
    assert agent.predict("cell 0")[0] in moves
    assert agent.predict("cell 99")[0] in moves  # never logged, so unknown


def test_columns_may_be_given(columns: dict[str, np.ndarray], expected: Statistics) -> None:
    renamed = {f"col{i}": values for i, values in enumerate(columns.values())}
    names = {role: f"col{i}" for i, role in enumerate(ROLES)}
    assert contents(tiny_agent().fit(renamed, columns=names).statistics) == contents(expected)


def test_spaces_give_ids_their_meaning(columns: dict[str, np.ndarray], expected: Statistics) -> None:
    env = gym.make("FrozenLake-v1")
    agent = tiny_agent().fit(columns, observation_space=env.observation_space, action_space=env.action_space)
    assert contents(agent.statistics) == contents(expected)
    before = agent.statistics.n_transitions
    assert agent.solve(env, episodes=3, seed=0, resume=True).n_transitions > before
    shifted = {**columns, "action": columns["action"] + 5}
    agent = tiny_agent().fit(shifted, action_space=gym.spaces.Discrete(4, start=5))
    assert contents(agent.statistics) == contents(expected)
    assert agent.predict(0)[0] in range(5, 9)


def test_rows_of_matrices_are_states() -> None:
    place = np.array([[0, 1], [0, 2], [1, 2]])
    agent = tiny_agent().fit((place[:-1], ["on", "on"], [0.0, 1.0], place[1:]))
    assert agent.result.plan.states == [(0, 1), (0, 2), (1, 2)]


def test_nullable_integers_are_ids(columns: dict[str, np.ndarray], expected: Statistics) -> None:
    frame = pytest.importorskip("pandas").DataFrame(columns).astype({"state": "Int64", "action": object})
    assert contents(tiny_agent().fit(frame).statistics) == contents(expected)


def test_the_data_is_left_as_it_was() -> None:
    done, cut = np.array([True, True]), np.array([False, True])
    data = {
        "s": np.array([0, 1]),
        "a": np.array([0, 0]),
        "r": np.zeros(2),
        "s2": np.array([1, 0]),
        "done": done,
        "timeout": cut,
    }
    agent = tiny_agent().fit(data)
    assert done.tolist() == [True, True]
    assert agent.statistics.terminal == {1}


def test_actions_may_appear_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "ROWS", 2)
    data = (
        [0, 1, 0, 3, 0],
        [0, 0, 2, 1, 1],
        [1.0, 2.0, 3.0, 4.0, 0.0],
        [1, 0, 3, 0, 1],
        [False, False, False, True, False],
    )
    agent = tiny_agent().fit(data)
    assert contents(agent.statistics) == contents(Statistics.from_transitions(*data))


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
def test_a_minari_dataset_is_read_episode_by_episode(
    columns: dict[str, np.ndarray], expected: Statistics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minari = pytest.importorskip("minari")
    pytest.importorskip("pyarrow")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    ends = np.flatnonzero(columns["terminated"] | columns["truncated"]) + 1
    episodes = [
        minari.data_collector.EpisodeBuffer(
            observations=np.append(columns["state"][rows], columns["next_state"][rows[-1]]),
            actions=columns["action"][rows],
            rewards=columns["reward"][rows],
            terminations=columns["terminated"][rows],
            truncations=columns["truncated"][rows],
        )
        for rows in np.split(np.arange(700), ends)
        if len(rows)
    ]
    env = gym.make("FrozenLake-v1")
    minari.create_dataset_from_buffers(
        "lake/random-v0",
        episodes,
        observation_space=env.observation_space,
        action_space=env.action_space,
        data_format="arrow",
    )
    agent = tiny_agent().fit(minari.load_dataset("lake/random-v0"))
    assert contents(agent.statistics) == contents(expected)
    assert agent.solve(env, episodes=1, seed=0, resume=True).n_transitions > 700


def test_coverage_tells_what_is_thin_and_warns_of_untried_starts() -> None:
    states, actions = [0] * 6 + [1] * 2, [0] * 6 + [0, 1]
    data = states, actions, [0.0] * 8, [1] * 6 + [2] * 2, [False] * 6 + [True] * 2, [True] * 6 + [False] * 2
    agent = tiny_agent()
    with pytest.warns(CoverageWarning, match="1 in 0"):
        agent.fit(data)
    coverage = agent.result.coverage
    np.testing.assert_array_equal(coverage.n_visits, [[6, 0], [1, 1], [0, 0]])
    np.testing.assert_array_equal(coverage.thin, [[False, True], [True, True], [False, False]])
    np.testing.assert_array_equal(coverage.untried_at_start, [[0, 1]])
    assert coverage.terminal.tolist() == [False, False, True]
    assert 1 in coverage.thin_choices
    assert "never left" in str(coverage)
    assert "3 pairs with fewer than 5 visits" in str(coverage)


def test_shuffled_rows_tell_no_starts(columns: dict[str, np.ndarray]) -> None:
    order = np.random.default_rng(0).permutation(700)
    agent = tiny_agent().fit({role: values[order] for role, values in columns.items()})
    assert agent.result.coverage.start_states is None
    assert "not known" in str(agent.result)


def test_memory_does_not_grow_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_file, "ROWS", 5_000)
    block = "".join(f"{i % 50},{i % 3},{i % 7 / 8},{(i + 1) % 50},{i % 50 == 49}\n" for i in range(1050))
    peaks = []
    for n_blocks in (10, 10, 100):  # the first run also pays for what is only made once
        path = tmp_path / "data.csv"
        path.write_text("state,action,reward,next_state,terminated\n" + block * n_blocks)
        tracemalloc.start()
        agent = tiny_agent().fit(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert agent.statistics.n_transitions == n_blocks * 1050
    assert peaks[2] < 1.2 * peaks[1]


@pytest.mark.parametrize("longer", ["x" * 9, "x" * 500, "ß漢" * 5])
def test_names_longer_than_those_in_the_first_rows_are_not_cut(longer: str, tmp_path: Path) -> None:
    names = ["x"] * csv_file.SNIFFED_ROWS + [longer + "a", longer + "b"]
    path = write_csv(tmp_path / "data.csv", {"s": names, "a": names, "r": [1.0] * len(names), "s2": names})
    layout = csv_file.sniff(path, None)
    pieces = list(csv_file.read_csv(layout, csv_file.named_columns(layout)))
    for role in ("state", "action", "next_state"):
        assert [piece[role].names[number] for piece in pieces for number in piece[role].numbers] == names


class TestWhatFilesCallTheirStates:
    ROWS = "start,go,0,mid,False\nmid,go,-10,end,True\nstart,stop,-1,end,True\n"
    HEADER = "state,action,reward,next_state,terminated\n"

    def where_go_leads(self, tmp_path, rows, name="data.csv"):
        path = tmp_path / name
        text = self.HEADER + rows * 20
        path.write_bytes(gzip.compress(text.encode()) if name.lower().endswith(".gz") else text.encode())
        agent = tiny_agent().fit(path)
        plan = agent.result.plan
        statistics = agent.statistics.table()
        go = plan.states.index("start") * 2 + plan.actions.index("go")
        reached = statistics.successor[statistics.transition_row == np.flatnonzero(statistics.pair == go)[0]]
        return plan.states[int(reached[0])], plan.states

    def test_names_that_look_like_numbers_in_one_column(self, tmp_path):
        """All next states are digits, and some states: they are names in both columns."""
        rows = self.ROWS.replace("mid", "1").replace("end", "2")
        assert self.where_go_leads(tmp_path, rows) == ("1", ["start", "1", "2"])

    def test_spaces_around_names_do_not_count(self, tmp_path):
        assert self.where_go_leads(tmp_path, self.ROWS.replace(",", ", ")) == ("mid", ["start", "mid", "end"])
        assert self.where_go_leads(tmp_path, self.ROWS.replace(",", " ,")) == ("mid", ["start", "mid", "end"])

    def test_spaces_that_begin_after_the_sample(self, tmp_path):
        path = tmp_path / "late.csv"
        path.write_text(self.HEADER + self.ROWS * 400 + self.ROWS.replace(",mid", ", mid") * 20)
        assert tiny_agent().fit(path).result.plan.states == ["start", "mid", "end"]

    def test_long_names_with_spaces(self, tmp_path):
        rows = self.ROWS.replace("mid", "m" * 100).replace(",", ", ")
        assert self.where_go_leads(tmp_path, rows) == ("m" * 100, ["start", "m" * 100, "end"])

    def test_names_with_underscores_are_no_numbers(self, tmp_path):
        rows = self.ROWS.replace("start", "0_0").replace("mid", "0_1").replace("end", "1_1")
        (tmp_path / "grid.csv").write_text(self.HEADER + rows)
        assert tiny_agent().fit(tmp_path / "grid.csv").result.plan.states == ["0_0", "0_1", "1_1"]

    @pytest.mark.parametrize("column", ["state", "action", "next_state"])
    def test_a_missing_name_is_refused(self, tmp_path, column):
        cells = {"state": "start", "action": "go", "reward": "0", "next_state": "mid", "terminated": "0", column: " "}
        (tmp_path / "gap.csv").write_text(self.HEADER + self.ROWS + ",".join(cells.values()) + "\n")
        with pytest.raises(MdpfnError, match=f"{column} is empty in row 4 of 'gap.csv', column '{column}'"):
            tiny_agent().fit(tmp_path / "gap.csv")

    def test_the_suffix_may_be_in_capitals(self, tmp_path):
        assert self.where_go_leads(tmp_path, self.ROWS, "DATA.CSV.GZ")[0] == "mid"

    @pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: data[:40] + b"?" * 40])
    def test_damaged_archives(self, tmp_path, damage):
        whole = gzip.compress((self.HEADER + self.ROWS * 2000).encode())
        (tmp_path / "data.csv.gz").write_bytes(damage(whole))
        with pytest.raises(MdpfnError, match="the file is"):
            tiny_agent().fit(tmp_path / "data.csv.gz")

    def test_columns_of_different_types(self):
        data = {"state": ["a", "1"], "action": [0, 0], "reward": [0.0, 1.0], "next_state": [1, 2]}
        with pytest.raises(MdpfnError, match="next_state is of type"):
            tiny_agent().fit(data)


@pytest.mark.parametrize("other", [10**7, -1, 0.5])
def test_numbers_that_are_no_ids_can_be_names(other):
    states = np.array([0, other, 0])

    def data(kind: type) -> dict[str, Any]:
        named = states.astype(kind)
        return {"state": named, "action": [0, 1, 1], "reward": [0.0, 1.0, 0.0], "next_state": np.roll(named, -1)}

    with pytest.raises(MdpfnError, match=r"text.*observation_space=\["):
        tiny_agent().fit(data(states.dtype.type))
    assert tiny_agent().fit(data(str)).result.plan.states == states[:2].astype(str).tolist()
    listed = tiny_agent().fit(data(states.dtype.type), observation_space=[0, other])
    assert listed.result.plan.states == [0, other]


@pytest.mark.filterwarnings("ignore::mdpfn.coverage.CoverageWarning")
def test_plans_are_greedy_where_something_is_known_and_take_turns_elsewhere():
    data = {"state": [0, 1, 0], "action": [0, 1, 2], "reward": [0.0, 1.0, -1.0], "next_state": [1, 2, 3]}
    data["terminated"] = [False, True, False]
    model = Model("random", to_numpy(random_network()), {"format": 1, "network": {}, "sha256": ""})
    agent = Agent(model).fit(data, observation_space=500, action_space=3)
    plan, careful = agent.plan(), agent.plan(risk=0.25)
    for each in (plan, careful):
        assert each.unknown is not None
        assert np.flatnonzero(~each.unknown).tolist() == [0, 1, 2]  # 2 is terminal, 3 was never left
    assert plan.greedy[:3].tolist() == plan.policy_logits[:3].argmax(axis=1).tolist()
    weights = np.exp(plan.policy_logits[3] / 0.25)
    assert np.sort(weights / weights.sum())[1] > 0.01  # or the next line would say little
    share = np.bincount(plan.greedy[3:], minlength=3) / 497
    np.testing.assert_allclose(share, weights / weights.sum(), atol=0.01)
    assert [agent.predict(state, on_unknown="best")[0] for state in range(500)] == plan.greedy.tolist()
    assert careful.greedy[3:].tolist() == careful.policy_logits[3:].argmax(axis=1).tolist()  # quantiles do not tell
    assert tiny_agent().fit(data).plan().unknown is None


def test_a_state_that_never_appeared_is_like_others_that_are_unknown():
    model = Model("random", to_numpy(random_network()), {"format": 1, "network": {}, "sha256": ""})
    agent = Agent(model).reset(None, ["z", "y", "x"], seed=0)
    agent.observe("a", "x", 0.0, "b", terminated=False)
    agent.observe("b", "y", 1.0, "c", terminated=False)
    plan = agent.plan()
    assert plan.unknown is not None
    assert plan.unknown.tolist() == [False, False, True]
    assert plan.greedy[2] != 0  # or the next line would say nothing
    never_seen, known = (agent.predict(state, on_unknown="best")[0] for state in ("never seen", "c"))
    assert never_seen == known == plan.actions[plan.greedy[2]]


def test_rows_and_columns_are_not_confused():
    rows = [[0, 1, 0.0, 1], [1, 1, 1.0, 0], [0, 0, 0.0, 0], [1, 0, 0.0, 1]]
    with pytest.raises(MdpfnError, match="rows or columns"):
        tiny_agent().fit(rows)
    as_rows, as_columns = (
        tiny_agent().fit([tuple(row) for row in rows]),
        tiny_agent().fit(tuple(map(list, zip(*rows, strict=True)))),
    )
    assert contents(as_rows.statistics) == contents(as_columns.statistics)


def test_ids_too_large_to_be_counted():
    with pytest.raises(MdpfnError, match="from 0 on"):
        Statistics.from_transitions([4_000_000_000], [0], [1.0], [0])


class TestEndsWithoutANextState:
    """Logs often have nothing to say about what follows the last step of an episode."""

    def check(self, data: Any, names: list[Any], **options: Any) -> None:
        agent = tiny_agent().fit(data, **options)
        z = agent.statistics.table()
        assert agent.result.plan.states == names
        assert z.n_terminated.sum() == 10
        assert z.n_states[0] == 2
        assert with_absorbing(z).n_states[0] == 3  # the end is a state of its own

    @pytest.mark.parametrize(("first", "second"), [("0", "1"), ("new", "old")])
    def test_in_files(self, first, second, tmp_path):
        path = tmp_path / "data.csv"
        path.write_text("s,a,r,s2,done\n" + f"{first},0,0,{second},0\n{second},0,1,,1\n" * 10)
        self.check(path, [0, 1] if first == "0" else [first, second])

    @pytest.mark.parametrize("missing", [None, float("nan")])
    def test_in_frames(self, missing):
        rows = {"s": [0, 1] * 10, "a": [0, 0] * 10, "r": [0.0, 1.0] * 10, "done": [False, True] * 10}
        self.check(pd.DataFrame({**rows, "s2": [1, missing] * 10}), [0, 1])
        named = {**rows, "s": ["new", "old"] * 10, "s2": ["old", missing] * 10}
        self.check(pd.DataFrame(named), ["new", "old"])

    def test_elsewhere_it_is_refused(self, tmp_path):
        path = tmp_path / "data.csv"
        for names in ("01", "xy"):
            path.write_text("s,a,r,s2,done\n" + f"{names[0]},0,0,{names[1]},0\n{names[1]},0,1,,0\n" * 10)
            with pytest.raises(MdpfnError):
                tiny_agent().fit(path)


@pytest.mark.filterwarnings("ignore::mdpfn.coverage.CoverageWarning")
@pytest.mark.parametrize(
    "header", ["State,Action,Reward,NextState", "state|action|reward|Next State", "S;A;R;next-state"]
)
def test_columns_are_known_however_they_are_spelled(header, tmp_path):
    path = tmp_path / "data.csv"
    delimiter = next(letter for letter in ",|;" if letter in header)
    path.write_text(header + "\n" + delimiter.join(["0", "1", "0.5", "1"]) + "\n")
    assert tiny_agent().fit(path).statistics.n_transitions == 1


def test_gaps_between_ids_are_pointed_out():
    with pytest.warns(UserWarning, match="only 3 of them appear"):
        tiny_agent().fit(([0, 100], [0, 0], [0.0, 1.0], [100, 200]))


@pytest.mark.filterwarnings("ignore::mdpfn.coverage.CoverageWarning")
@pytest.mark.parametrize(
    "space", [spaces.Tuple((spaces.Discrete(3), spaces.Discrete(2))), spaces.MultiDiscrete([3, 2])]
)
def test_rows_hold_values_of_any_space(space):
    rows = [((i % 3, i % 2), 0, 1.0, ((i + 1) % 3, (i + 1) % 2)) for i in range(12)]
    fitted = tiny_agent().fit(rows, observation_space=space, action_space=2)
    assert contents(fitted.statistics) == contents(
        tiny_agent()
        .fit([(2 * s[0] + s[1], a, r, 2 * t[0] + t[1]) for s, a, r, t in rows], observation_space=6, action_space=2)
        .statistics
    )


@pytest.mark.filterwarnings("ignore::mdpfn.coverage.CoverageWarning")
def test_states_that_were_never_logged_are_answered_and_observed():
    agent = tiny_agent().fit([("a", "go", 0.0, "b"), ("b", "stay", 1.0, "a")])
    assert agent.predict("c")[0] in ("go", "stay")
    agent.observe("b", "go", 1.0, "c", terminated=False)
    assert agent.act("c") in ("go", "stay")
    with pytest.raises(MdpfnError, match="action"):
        agent.observe("b", "fly", 1.0, "c", terminated=False)
