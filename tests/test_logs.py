"""Logs as people have them: episodes and times, several columns, gaps in the data, files of every kind."""

from __future__ import annotations

import json
import random
import warnings
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mdpfn import Agent, MdpfnError
from mdpfn.data import files
from mdpfn.data.reader import NeverLeftWarning
from tests.interface import contents, tiny_agent

pytestmark = pytest.mark.filterwarnings("ignore::mdpfn.coverage.CoverageWarning")

JOURNEY = {
    "customer": [7, 7, 7, 9, 9],
    "time": [1, 2, 3, 1, 2],
    "state": ["new", "active", "active", "new", "lapsed"],
    "action": ["mail", "wait", "call", "wait", "mail"],
    "reward": [0.0, 1.0, 5.0, 0.0, -2.0],
}
ROLES = {"episode": "customer"}


def transitions(agent: Agent) -> dict[tuple[Any, Any, Any], tuple[float, float]]:
    """(state, action, next state) by name -> how often, and how often as the last."""
    z, plan = agent.statistics.table(), agent.plan()
    return {
        (plan.states[s], plan.actions[a], plan.states[t]): (n, end)
        for s, a, t, n, end in zip(
            z.state[z.transition_row].tolist(),
            z.action[z.transition_row].tolist(),
            z.successor.tolist(),
            z.transition_count.tolist(),
            z.n_terminated.tolist(),
            strict=True,
        )
    }


def shuffled(columns: dict[str, list[Any]], seed: int = 1) -> dict[str, list[Any]]:
    order = np.random.default_rng(seed).permutation(len(columns["state"]))
    return {name: [values[i] for i in order] for name, values in columns.items()}


def written(path: Path, columns: dict[str, list[Any]], delimiter: str = ",") -> Path:
    rows = [delimiter.join(columns), *(delimiter.join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(params=["polars", "careful"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Files are read by polars, or where it is not installed by the careful reader."""
    if request.param == "careful":
        monkeypatch.setattr(files, "has_polars", lambda: False)
    return str(request.param)


class TestEpisodes:
    def test_the_next_state_is_the_next_row_of_the_same_episode(self, tmp_path: Path, reader: str) -> None:
        expected = {
            ("new", "mail", "active"): (1, 0),
            ("active", "wait", "active"): (1, 0),
            ("active", "call", "active"): (1, 1),  # nothing follows: the state itself stands for the end
            ("new", "wait", "lapsed"): (1, 0),
            ("lapsed", "mail", "lapsed"): (1, 1),
        }
        path = written(tmp_path / "log.csv", shuffled(JOURNEY))
        for log in (JOURNEY, shuffled(JOURNEY), pd.DataFrame(shuffled(JOURNEY)), path):
            agent = tiny_agent().fit(log, columns=ROLES)
            assert transitions(agent) == expected
            starts = agent.result.coverage.start_states
            assert starts is not None
            assert {agent.plan().states[i]: n for i, n in starts.items()} == {"new": 2}

    def test_a_log_that_was_cut_off_tells_nothing_about_its_last_rows(self, tmp_path: Path, reader: str) -> None:
        path = written(tmp_path / "log.csv", JOURNEY)
        agent = tiny_agent().fit(path, columns=ROLES, episode_end="truncated")
        assert agent.statistics.n_transitions == 3
        assert not agent.statistics.terminal
        assert "2 rows left out because what followed was cut off" in str(agent.result)

    def test_one_id_for_several_episodes(self, tmp_path: Path, reader: str) -> None:
        """Flags end them, and what follows is the start of another one."""
        for flag, n_of_call in (("terminated", (1, 1)), ("truncated", None)):
            log = {**JOURNEY, "customer": [7] * 5, "time": [1, 2, 3, 4, 5], flag: [False, False, True, False, True]}
            path = written(tmp_path / "log.csv", log)
            for data in (log, pd.DataFrame(log), pl.DataFrame(log).lazy(), path):
                agent = tiny_agent().fit(data, columns=ROLES)
                found = transitions(agent)
                assert found.get(("active", "call", "active")) == n_of_call
                assert ("active", "call", "new") not in found
                assert found["new", "wait", "lapsed"] == (1, 0)
                starts = agent.result.coverage.start_states
                assert starts is not None
                assert {agent.plan().states[i]: n for i, n in starts.items()} == {"new": 2}

    def test_done_beside_truncated_means_both(self) -> None:
        """A row that was cut off is no end, and does not lead into the episode that follows under the same id."""
        log = {"episode": [7] * 4, "time": [1, 2, 3, 4], "state": [*"abcd"], "action": ["x"] * 4, "reward": [0.0] * 4}
        log |= {"done": [0, 1, 0, 1], "truncated": [0, 1, 0, 0]}
        for data in (log, pd.DataFrame(log), pl.DataFrame(log)):
            found = transitions(tiny_agent().fit(data))
            assert found == {("a", "x", "b"): (1, 0), ("c", "x", "d"): (1, 0), ("d", "x", "d"): (1, 1)}

    def test_names_of_episodes_may_have_spaces_around_them(self, tmp_path: Path, reader: str) -> None:
        path = tmp_path / "log.csv"
        path.write_text("episode,time,state,action,reward\ne1,1,a,x,0\n e1,2,b,x,0\ne1,3,c,x,0\n")
        assert set(transitions(tiny_agent().fit(path))) == {("a", "x", "b"), ("b", "x", "c"), ("c", "x", "c")}

    def test_a_missing_episode_is_none_of_the_others(self) -> None:
        log = {"episode": ["None", None, "None"], "state": [*"abc"], "action": ["x"] * 3, "reward": [0.0] * 3}
        for data in (log, pl.DataFrame(log)):
            found = transitions(tiny_agent().fit(data, missing="drop"))
            assert set(found) == {("a", "x", "c"), ("c", "x", "c")}

    def test_vectors_keep_the_rules(self, tmp_path: Path) -> None:
        """Of order, ties and starts, in one long episode as well, which is read in several pieces."""
        n = 25_000
        x = np.random.default_rng(0).normal(size=(n, 2)).round(4)
        frame = pd.DataFrame({"x": x[:, 0], "y": x[:, 1], "action": [0, 1] * (n // 2), "reward": 0.5})
        columns: dict[str, Any] = {"state": ["x", "y"]}
        relation = duckdb.from_df(frame.assign(episode=1))
        with pytest.raises(MdpfnError, match="no order of their own"):
            Agent.from_pretrained().fit(relation, columns=columns)
        tied = duckdb.from_df(frame.assign(episode=1, time=1).head(50))
        with pytest.raises(MdpfnError, match="49 rows have the same time"):
            Agent.from_pretrained().fit(tied, columns=columns)
        again = frame.head(200).assign(time=[*range(10)] * 20)
        with pytest.warns(UserWarning, match="190 of 200 rows have the same time"):
            Agent.from_pretrained().fit(again, columns=columns)
        following = pd.concat([frame, frame[["x", "y"]].shift(-1, fill_value=0.0).add_suffix("2")], axis=1)
        following.to_csv(tmp_path / "log.csv", index=False)
        columns["next_state"] = ["x2", "y2"]
        agent = Agent.from_pretrained().fit(tmp_path / "log.csv", columns=columns)
        assert len(agent.evidence.memory.starts) == 1  # type: ignore[union-attr]

    def test_times_that_start_again_and_no_episode(self) -> None:
        log = {name: values * 4 for name, values in JOURNEY.items() if name != "customer"}
        for data in (log, pd.DataFrame(log)):
            with pytest.warns(UserWarning, match=r"17 of 20 rows have the same time.*columns=\{'episode': …\}"):
                tiny_agent().fit(data)

    def test_a_last_row_without_an_action_is_where_the_episode_ended(self) -> None:
        log: dict[str, list[Any]] = {name: [*values, values[-1]] for name, values in JOURNEY.items()}
        log["time"][-1], log["state"][-1] = 3, "churned"
        log["action"][-1] = log["reward"][-1] = None
        for data in (log, pd.DataFrame(log), pl.DataFrame(log)):
            agent = tiny_agent().fit(data, columns=ROLES)
            assert transitions(agent)["lapsed", "mail", "churned"] == (1, 1)
            assert agent.statistics.n_transitions == 5
            cut = tiny_agent().fit(data, columns=ROLES, episode_end="truncated")
            assert transitions(cut)["lapsed", "mail", "churned"] == (1, 0)

    def test_flags_say_which_episodes_really_ended(self) -> None:
        log = {**JOURNEY, "terminated": [False, False, True, False, False]}
        for data in (log, pd.DataFrame(log)):
            agent = tiny_agent().fit(data, columns=ROLES)
            assert transitions(agent)["active", "call", "active"] == (1, 1)
            assert agent.statistics.n_transitions == 4  # what followed the other last row is not known

    def test_rows_at_the_same_time_keep_their_order_and_are_counted(self, tmp_path: Path, reader: str) -> None:
        log = {**JOURNEY, "time": [1, 1, 2, 1, 2]}
        agent = tiny_agent().fit(written(tmp_path / "log.csv", log), columns=ROLES)
        assert transitions(agent)["new", "mail", "active"] == (1, 0)
        assert "1 rows at the same time as the next one" in str(agent.result)

    @pytest.mark.parametrize("unit", [1, timedelta(days=1)])
    def test_a_gap_breaks_an_episode(self, unit: Any) -> None:
        start = 0 if unit == 1 else datetime(2026, 1, 1)
        log = {**JOURNEY, "time": [start + days * unit for days in (1, 2, 30, 1, 2)]}
        for data in (log, pd.DataFrame(log), pl.DataFrame(log).lazy()):
            agent = tiny_agent().fit(data, columns=ROLES, max_gap=7 * unit)
            found = transitions(agent)
            assert ("active", "wait", "active") not in found
            assert found["active", "call", "active"] == (1, 1)
            starts = agent.result.coverage.start_states
            assert starts is not None
            assert {agent.plan().states[i]: n for i, n in starts.items()} == {"new": 2, "active": 1}

    def test_dates_as_text(self, tmp_path: Path, reader: str) -> None:
        for form in ("2026-01-{:02} 12:00", "2026-01-{:02}T12:00:00Z"):
            log = {**JOURNEY, "time": [form.format(day) for day in (1, 2, 30, 1, 2)]}
            path = written(tmp_path / "log.csv", shuffled(log))
            agent = tiny_agent().fit(path, columns=ROLES, max_gap=timedelta(days=7))
            assert agent.statistics.n_transitions == 4
        other = written(tmp_path / "log2.csv", {**JOURNEY, "time": ["31.1.2026"] * 5})
        with pytest.raises(MdpfnError, match=r"'31\.1\.2026'.*2026-01-31"):
            tiny_agent().fit(other, columns=ROLES)

    def test_gaps_in_files_are_of_the_kind_of_times(self, tmp_path: Path, reader: str) -> None:
        dates = {**JOURNEY, "time": [f"2026-01-{day:02}" for day in (1, 2, 3, 1, 2)]}
        for log, gap, says in ((dates, 3, "times are dates"), (JOURNEY, timedelta(days=3), "times are numbers")):
            with pytest.raises(MdpfnError, match=says):
                tiny_agent().fit(written(tmp_path / "log.csv", log), columns=ROLES, max_gap=gap)
        pl.DataFrame(dates).with_columns(pl.col("time").str.to_date()).write_parquet(tmp_path / "log.parquet")
        with pytest.raises(MdpfnError, match="times are dates"):
            tiny_agent().fit(tmp_path / "log.parquet", columns=ROLES, max_gap=3)
        agent = tiny_agent().fit(tmp_path / "log.parquet", columns=ROLES, max_gap=timedelta(days=3))
        assert agent.statistics.n_transitions == 5
        sparse = {**JOURNEY, "time": [1, 2, None, 1, 2]}  # whole numbers, though one is missing
        agent = tiny_agent().fit(sparse, columns=ROLES, max_gap=np.int64(3), missing="drop")
        assert agent.statistics.n_transitions == 2  # without its time nobody knows what a row followed

    @pytest.mark.parametrize(
        ("times", "says"),
        [
            (["2026-01-02 8:00", "2026-01-02 9:00", "2026-01-02 10:00"], r"time is '2026-01-02 8:00' in row 1"),
            (["2026-01-02T08:00:00Z", "2026-01-02T09:00:00+02:00"], r"'2026-01-02T09:00:00\+02:00' in row 2"),
            (["2026-01-02 08:00", "2026-01-02T09:00"], "'2026-01-02T09:00' in row 2.*another is '2026-01-02 08:00'"),
            (["2026-01-02T08:00:00Z", "2026-01-02T08:00:00.5Z"], "'2026-01-02T08:00:00.5Z' in row 2.*another is"),
        ],
    )
    def test_text_that_does_not_sort_as_time_is_refused(
        self, times: list[str], says: str, tmp_path: Path, reader: str
    ) -> None:
        n = len(times)
        log: dict[str, list[Any]] = {"time": times, "state": ["a"] * n, "action": ["x"] * n, "reward": [0.0] * n}
        for data in (log, written(tmp_path / "log.csv", log), pd.DataFrame(log), pl.DataFrame(log)):
            with pytest.raises(MdpfnError, match=says + ".*write them like 2026-01-31 08:05:00"):
                tiny_agent().fit(data)

    def test_time_alone_makes_one_episode(self) -> None:
        log = {name: values for name, values in JOURNEY.items() if name != "customer"}
        log["time"] = [1, 2, 3, 4, 5]
        assert tiny_agent().fit(log).statistics.n_transitions == 5

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        seed=st.integers(0, 10_000),
        gap=st.sampled_from([None, 2]),
        end=st.sampled_from(["terminal", "truncated"]),
        flags=st.sampled_from([(), ("terminated",), ("terminated", "truncated")]),
        timeless=st.sampled_from([0.0, 0.04]),
    )
    def test_engines_and_rows_tell_the_same(
        self, seed: int, gap: int | None, end: Any, flags: tuple[str, ...], timeless: float
    ) -> None:
        """The query and the code for rows are two implementations; so is this loop."""
        rng = random.Random(seed)
        rows = [
            {
                "episode": rng.randrange(4),
                "time": None if rng.random() < timeless else t,
                "state": f"s{rng.randrange(3)}",
                "action": rng.choice("ab"),
                "reward": rng.choice([0.1, -1.25, 3.0]),
                **{flag: rng.random() < 0.1 for flag in flags},
            }
            for t in rng.sample(range(40), 25)
        ]
        log = {name: [row[name] for row in rows] for name in rows[0]}
        expected: dict[Any, Any] = {}
        for episode in range(4):
            of_episode = [row for row in rows if row["episode"] == episode]
            if any(row["time"] is None for row in of_episode):
                continue
            of_episode.sort(key=lambda row: row["time"])
            for row, following in zip(of_episode, [*of_episode[1:], None], strict=False):
                over = row.get("terminated", following is None and not flags and end == "terminal")
                cut = row.get("truncated") or following is None or (gap and following["time"] - row["time"] > gap)
                if cut and not over:
                    continue
                key = row["state"], row["action"], row["state"] if over else following["state"]
                n, ended = expected.get(key, (0, 0))
                expected[key] = n + 1, ended + over
        if not expected:
            return
        frame = pd.DataFrame(log).astype({"time": "Int64"})
        for data in (log, frame, pl.DataFrame(log).lazy()):
            agent = tiny_agent().fit(data, episode_end=end, max_gap=gap, missing="drop")
            assert transitions(agent) == expected


class TestColumns:
    def test_several_columns_make_one_state(self, tmp_path: Path, reader: str) -> None:
        log = {**JOURNEY, "tier": [1, 1, 2, 2, 2]}
        columns = {**ROLES, "state": ["state", "tier"]}
        for data in (log, pd.DataFrame(log), written(tmp_path / "log.csv", log)):
            agent = tiny_agent().fit(data, columns=columns)
            assert set(agent.plan().states) == {("new", 1), ("active", 1), ("active", 2), ("new", 2), ("lapsed", 2)}
            assert agent.predict(("new", 1))[0] in ("mail", "wait", "call")
        assert "state = state + tier" in str(agent.result)

    def test_float_columns_make_vectors(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(0)
        x = np.cumsum(rng.normal(size=(60, 2)), axis=0).round(3)
        log = pd.DataFrame({"x": x[:, 0], "y": x[:, 1], "action": rng.integers(2, size=60), "reward": x[:, 0]})
        log["id"], log["t"] = np.arange(60) // 20, np.arange(60) % 20
        columns = {"state": ["x", "y"], "episode": "id", "time": "t"}
        log.to_csv(tmp_path / "log.csv", index=False)
        named = log.assign(action=np.where(log.action > 0, "push", "wait"))
        named.to_csv(tmp_path / "named.csv", index=False)
        for data, actions in (
            (log, (0, 1)),
            (tmp_path / "log.csv", (0, 1)),
            (named, ("push", "wait")),
            (tmp_path / "named.csv", ("push", "wait")),
        ):
            agent = Agent.from_pretrained().fit(data, columns=columns)
            assert agent.evidence.n_transitions == 60
            assert agent.predict(np.array([0.5, 0.5]))[0] in actions
        with pytest.raises(MdpfnError, match="reward is"):
            Agent.from_pretrained().fit(log.assign(reward=1.5), columns=columns, reward_range=(2.0, 3.0))
        Agent.from_pretrained().fit(log.assign(reward=1.5), columns=columns, reward_range=(1.0, 2.0))

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_tables_of_states_are_predicted_for(self, frame: Any) -> None:
        log = {"tier": [1, 2, 1, 2], "place": ["a", "b", "b", "a"], "action": ["x", "y", "y", "x"]}
        log |= {"reward": [1.0, 0.0, 2.0, 0.0], "week": [0, 1, 2, 3]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            several = tiny_agent().fit(frame(log), columns={"state": ["place", "tier"], "time": "week"})
            one = tiny_agent().fit(frame(log), columns={"state": "place", "time": "week"})
        states = list(zip(log["place"], log["tier"], strict=True))
        assert several.predict(frame(log))[0] == [several.predict(state)[0] for state in states]
        assert one.predict(pd.Timestamp("2026-01-31"), on_unknown="best")[0] in ("x", "y")  # a state like any other
        assert one.predict(frame(log))[0] == one.predict(frame(log)["place"])[0] == one.predict(log["place"])[0]

    def test_bins_are_chosen_from_the_data_and_reported(self, tmp_path: Path, reader: str) -> None:
        rng = np.random.default_rng(0)
        wear = rng.random(400).round(3)
        log = {"wear": wear[:-1], "kind": ["a", "b", "b"] * 133, "do": ["run", "fix", "run"] * 133}
        log |= {"reward": wear[1:], "wear2": wear[1:], "kind2": ["b", "b", "a"] * 133}
        columns = {"state": ["wear", "kind"], "next_state": ["wear2", "kind2"], "action": "do"}
        frame = pd.DataFrame(log)
        frame.to_csv(tmp_path / "log.csv", index=False)
        edges = [float(f"{e:.4g}") for e in np.quantile(wear[:-1], [0.25, 0.5, 0.75])]
        for data in (frame, tmp_path / "log.csv"):
            agent = tiny_agent().fit(data, columns=columns, bins=4)
            assert agent.plan().states[0] in [(f"{lo}wear{hi}", "a") for lo, hi in _names(edges)]
            assert len(agent.plan().states) == 8
            visits = agent.statistics.table().visits_table().sum(axis=1)
            assert visits.sum() == 399
            assert [f"{edge:g}" in str(agent.result) for edge in edges] == [True] * 3
        agent.save(tmp_path / "agent")
        again = Agent.load(tmp_path / "agent")
        assert again.predict((0.1, "a"))[0] == agent.predict((0.1, "a"))[0]
        assert again.problem.encoding.find((0.1, "a")) == again.problem.encoding.find((f"wear < {edges[0]:g}", "a"))
        gaps = frame.assign(wear=frame["wear"].where(frame.index % 5 > 0))
        for data in (gaps, pl.DataFrame(gaps.to_dict("list")), dict(gaps)):
            edges = [float(f"{e:.4g}") for e in np.quantile(gaps["wear"].dropna(), [0.5])]
            agent = tiny_agent().fit(data, columns=columns, bins={"wear": 2}, missing="drop")
            assert {f"wear < {edges[0]:g}", f"wear ≥ {edges[0]:g}"} == {name for name, _ in agent.plan().states}
        given_edges = tiny_agent().fit(frame, columns=columns, bins={"wear": [0.5]})
        assert len(given_edges.plan().states) == 4

    @pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame])
    def test_columns_of_whole_numbers_with_a_point_are_cut(self, make: Any) -> None:
        log: dict[str, Any] = {"state": np.array([20.0, 30.0, 40.0, 50.0] * 5), "action": ["x", "y"] * 10}
        log |= {"reward": [1.0] * 20, "episode": list(range(20))}
        assert tiny_agent().fit(make(log), bins=2).plan().states == ["state < 35", "state ≥ 35"]

    def test_actions_that_are_counted_from_one(self) -> None:
        log = {"state": [0, 1, 0], "action": [1, 2, 3], "reward": [1.0] * 3, "next_state": [1, 0, 1]}
        with pytest.warns(UserWarning, match=r"the smallest action is 1, .*action_space=list\(range\(1, 4\)\)"):
            tiny_agent().fit(log)
        assert tiny_agent().fit(log, action_space=list(range(1, 4))).plan().actions == [1, 2, 3]

    def test_masked_numbers_are_missing(self) -> None:
        log = {"state": [0, 1], "action": [0, 1], "next_state": [1, 0], "reward": np.ma.array([1.0, 9.0], mask=[0, 1])}
        with pytest.raises(MdpfnError, match="reward is empty in row 2"):
            tiny_agent().fit(log)

    def test_columns_of_one_name(self) -> None:
        frame = pd.DataFrame([[0, 0, 1.0, 2.0, 1]], columns=["state", "action", "reward", "reward", "next_state"])
        with pytest.raises(MdpfnError, match="give every column a name of its own"):
            tiny_agent().fit(frame)

    def test_rows_may_stand_for_many(self, tmp_path: Path, reader: str) -> None:
        log = {"state": [0, 1], "action": [0, 1], "reward": [0.5, 2.0], "next_state": [1, 0], "n": [30, 0.5]}
        for data in (log, pd.DataFrame(log), written(tmp_path / "log.csv", log)):
            z = tiny_agent().fit(data, columns={"count": "n"}).statistics.table()
            assert z.transition_count.tolist() == [30, 0.5]
            assert z.reward_sum.tolist() == [15, 1]
        weights = {"state": [0, 1, 3], "action": [0] * 3, "reward": [0, 1, 1], "next_state": [1, 2, 2]}
        weights |= {"terminated": [0, 1, 1], "n": [0.5, 0.5, 0.2]}
        for data in (weights, pd.DataFrame(weights)):
            starts = tiny_agent().fit(data, columns={"count": "n"}).result.coverage.start_states
            assert starts == {0: 2, 3: 1}
        with pytest.raises(MdpfnError, match=r"count is -1.0 in row 2"):
            tiny_agent().fit({**log, "n": [3, -1]}, columns={"count": "n"})
        for n, says in ((np.inf, "count is inf.*finite"), (1e16, r"count is 1e\+16.*at most 1e\+15")):
            for data in ({**log, "n": [3, n]}, pd.DataFrame({**log, "n": [3, n]})):
                with pytest.raises(MdpfnError, match=says):
                    tiny_agent().fit(data, columns={"count": "n"})
        with pytest.raises(MdpfnError, match="count is empty in row 2"):
            tiny_agent().fit({**log, "n": [3, None]}, columns={"count": "n"})

    def test_decimal_commas(self, tmp_path: Path, reader: str) -> None:
        path = tmp_path / "log.csv"
        path.write_text("state;action;reward;next_state\na;go;1,5;b\nb;go;-0,25;a\n")
        assert tiny_agent().fit(path).statistics.table().reward_sum.tolist() == [1.5, -0.25]


def _names(edges: list[float]) -> list[tuple[str, str]]:
    pairs = [("", f" < {edges[0]:g}"), ("", f" ≥ {edges[-1]:g}")]
    return pairs + [(f"{a:g} ≤ ", f" < {b:g}") for a, b in pairwise(edges)]


class TestFiles:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        for i in (1, 2):
            rows = {name: [v for v, c in zip(values, JOURNEY["customer"], strict=True) if c == (7, 9)[i - 1]]
                    for name, values in JOURNEY.items()}  # fmt: skip
            written(tmp_path / f"part{i}.csv", rows)
            lines = [json.dumps(dict(zip(rows, row, strict=True))) for row in zip(*rows.values(), strict=True)]
            (tmp_path / f"part{i}.jsonl").write_text("\n".join(lines) + "\n")
            pl.DataFrame(rows).write_parquet(tmp_path / f"part{i}.parquet")
        return tmp_path

    def test_lists_patterns_and_folders(self, folder: Path, reader: str) -> None:
        whole = contents(tiny_agent().fit(JOURNEY, columns=ROLES).statistics)
        for kind in ("csv", "jsonl", "parquet"):
            paths = [folder / f"part{i}.{kind}" for i in (1, 2)]
            for data in (paths, [str(path) for path in paths], str(folder / f"part*.{kind}")):
                assert contents(tiny_agent().fit(data, columns=ROLES).statistics) == whole
            only = folder / kind
            only.mkdir()
            for path in paths:
                path.rename(only / path.name)
            assert contents(tiny_agent().fit(only, columns=ROLES).statistics) == whole

    def test_what_is_no_log(self, folder: Path) -> None:
        (folder / "a.docx").touch()
        for data, text in (
            (folder, "of kinds"),
            (folder / "missing.csv", "no such file"),
            (str(folder / "*.tsv"), "no file matches"),
            ([folder / "a.docx"], "must end in"),
        ):
            with pytest.raises(MdpfnError, match=text):
                tiny_agent().fit(data, columns=ROLES)
        (folder / "empty").mkdir()
        with pytest.raises(MdpfnError, match="no file in it"):
            tiny_agent().fit(folder / "empty")

    def test_arrow(self) -> None:
        table = pa.table(JOURNEY)
        whole = contents(tiny_agent().fit(JOURNEY, columns=ROLES).statistics)
        reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2))
        for data in (table, table.to_batches()[0], reader):
            assert contents(tiny_agent().fit(data, columns=ROLES).statistics) == whole


class TestBadInput:
    """One sentence with file, row, column, value and remedy; the agent keeps what it knew."""

    GOOD = "state,action,profit,next_state,terminated\n" + "a,go,1.5,b,0\nb,go,-2,a,1\n" * 600
    CASES: ClassVar = {
        "a reward that is a word": ("a,go,much,b,0", r"reward is 'much' in row 1201 of 'log.csv', column 'profit'"),
        "a reward that is missing": ("a,go,,b,0", r"reward is empty in row 1201 of 'log.csv', column 'profit'.*drop"),
        "a missing state": (",go,1,b,0", r"state is empty in row 1201 of 'log.csv', column 'state'"),
        "an infinite reward": ("a,go,inf,b,0", r"reward is inf in row 1201 of 'log.csv', column 'profit'"),
        "too few columns": ("a,go", r"reward is not there in row 1201 of 'log.csv', column 'profit'"),
        "a flag that is none": (
            "a,go,1,b,perhaps",
            r"a flag is 'perhaps' in row 1201 of 'log.csv', column 'terminated'",
        ),
        "too many fields": (
            "a,go,1,b,0,9",
            r"a row is of 6 fields in row 1201 of 'log.csv', but the header names 5 columns: .*quotes",
        ),
    }

    @pytest.mark.parametrize(("row", "text"), CASES.values(), ids=CASES)
    def test_files(self, row: str, text: str, tmp_path: Path, reader: str) -> None:
        path = tmp_path / "log.csv"
        path.write_text(self.GOOD)
        agent = tiny_agent().fit(path, columns={"reward": "profit"})
        known = contents(agent.statistics)
        path.write_text(self.GOOD + row + "\n")
        for method in (agent.fit, agent.partial_fit):
            with pytest.raises(MdpfnError, match=text) as caught:
                method(path, columns={"reward": "profit"})
            assert len(str(caught.value)) < 300
            assert contents(agent.statistics) == known

    def test_ids(self, tmp_path: Path, reader: str) -> None:
        path = tmp_path / "log.csv"
        path.write_text("s,a,r,s2\n0,0,1,1\n1,0,1,-5\n")
        with pytest.raises(MdpfnError, match=r"state is -5.* in row 2 of 'log.csv', column 's2'"):
            tiny_agent().fit(path)

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_frames(self, frame: Any) -> None:
        log = {"state": ["a", "b"], "action": ["go", None], "reward": [1.0, 2.0], "next_state": ["b", "a"]}
        with pytest.raises(MdpfnError, match="action is empty in row 2, column 'action'"):
            tiny_agent().fit(frame(log))

    def test_parts_with_other_columns(self) -> None:
        whole = pd.DataFrame({**TestDeclared.LOG, "terminated": False})
        for parts in ([whole, whole.drop(columns="terminated")], [whole.drop(columns="terminated"), whole]):
            with pytest.raises(MdpfnError, match="in a later part, but the first one has"):
                tiny_agent().fit(iter(parts))

    def test_an_empty_file_has_no_columns(self, tmp_path: Path) -> None:
        (tmp_path / "log.csv").touch()
        with pytest.raises(MdpfnError, match="the data has none: name a column that exists"):
            tiny_agent().fit(tmp_path / "log.csv", columns={"state": "place"})

    @pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
    @pytest.mark.parametrize("state", [["a", "b"], [[0.5, 1.0], [0.0, 2.0]]])
    def test_rewards_that_are_no_numbers(self, make: Any, state: list[Any]) -> None:
        log = {"state": state, "action": ["x", "y"], "reward": ["1.5", "much"], "next_state": state}
        if make is dict:
            log = {name: np.array(values) for name, values in log.items()}
        with pytest.raises(MdpfnError, match="reward is 'much' in row 2, column 'reward', but it must be a number"):
            tiny_agent().fit(make(log))

    def test_the_row_that_lacks_something_is_named(self, tmp_path: Path, reader: str) -> None:
        """Not the one before it, of which it is the next state."""
        for role in ("state", "action"):
            log = {**JOURNEY, role: [None if i == 1 else value for i, value in enumerate(JOURNEY[role])]}
            written(tmp_path / "log.csv", {n: ["" if v is None else v for v in values] for n, values in log.items()})
            for data in (log, pd.DataFrame(log), pl.DataFrame(log), tmp_path / "log.csv"):
                with pytest.raises(MdpfnError, match=rf"{role} is empty in row 2.*, column '{role}'"):
                    tiny_agent().fit(data, columns=ROLES)
        x = np.array([0.0, np.nan, 0.5, 1.0])
        vectors = {"x": x, "y": np.ones(4), "action": [0, 1, 0, 1], "reward": np.ones(4), "time": [4, 3, 2, 1]}
        with pytest.raises(MdpfnError, match="state is empty in row 2, column 'x', 'y'"):
            Agent.from_pretrained().fit(vectors, columns={"state": ["x", "y"]})
        empty: dict[str, list[Any]] = {name: [*values] for name, values in JOURNEY.items()}
        empty["state"][1] = empty["action"][1] = empty["reward"][1] = None
        with pytest.raises(MdpfnError, match="state is empty in row 2, column 'state'"):
            tiny_agent().fit(empty, columns=ROLES)

    @pytest.mark.parametrize("n", [[2, 1, 1], [-1, 0, 1]])
    def test_vectors_are_not_weighed(self, n: list[int], tmp_path: Path) -> None:
        log = pd.DataFrame({"x": [0.5, 0.1, 0.2], "y": [0.1, 0.2, 0.3], "x2": [0.1, 0.2, 0.4], "y2": [0.2, 0.3, 0.1]})
        log["action"], log["reward"], log["n"] = [0, 1, 0], [1.0, 2.0, 3.0], n
        log.to_csv(tmp_path / "log.csv", index=False)
        columns: dict[str, Any] = {"state": ["x", "y"], "next_state": ["x2", "y2"], "count": "n"}
        for data in (log, tmp_path / "log.csv"):
            with pytest.raises(MdpfnError, match=r"count is 'n', but states are vectors.*leave it out"):
                Agent.from_pretrained().fit(data, columns=columns)

    def test_missing_rows_may_be_left_out(self, tmp_path: Path, reader: str) -> None:
        path = tmp_path / "log.csv"
        path.write_text(self.GOOD + "a,go,NA,b,0\n,go,1,b,0\n\na,go,1,,0\n")
        agent = tiny_agent().fit(path, columns={"reward": "profit"}, missing="drop")
        assert agent.statistics.n_transitions == 1200
        assert "3 rows left out because something is missing" in str(agent.result)

    def test_a_missing_row_does_not_make_its_neighbours_follow_each_other(self) -> None:
        log = {**JOURNEY, "state": ["new", None, "active", "new", "lapsed"]}
        for data in (log, pd.DataFrame(log), pl.DataFrame(log)):
            agent = tiny_agent().fit(data, columns=ROLES, missing="drop")
            assert set(transitions(agent)) == {
                ("active", "call", "active"),
                ("new", "wait", "lapsed"),
                ("lapsed", "mail", "lapsed"),
            }

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"episode_end": "over"}, "episode_end is 'over'"),
            ({"missing": "guess"}, "missing is 'guess'"),
            ({"max_gap": -1}, "max_gap is -1"),
            ({"bins": 1}, "bins is 1"),
            ({"bins": {"reward": 3}}, "the state is made of state"),
            ({"bins": {"state": [2.0, 1.0]}}, "rising"),
            ({"terminal": ["nowhere"]}, "no such state"),
            ({"terminal": "new"}, "list of states"),
            ({"terminal": 3}, "list of states"),
            ({"available": {"new": ["dance"]}}, "never takes"),
            ({"available": {"new": ["mail"]}}, "the log takes 'wait' in 'new'"),
            ({"available": 3}, "available is of type int"),
            ({"columns": {"episode": "customer", "action": ["a", "b"]}}, "several columns"),
            ({"columns": {"customer": "episode"}}, "the roles are"),
            ({"columns": {"episode": "customer", "state": "customer"}}, "no column can be two things"),
            ({"columns": {"episode": 7}}, "called by its name"),
        ],
    )
    def test_options(self, options: dict[str, Any], text: str) -> None:
        with pytest.raises(MdpfnError, match=text):
            tiny_agent().fit(JOURNEY, **{"columns": ROLES, **options})


class TestDeclared:
    """What rows do not say, users do."""

    LOG: ClassVar = {
        "state": ["at risk", "at risk", "active", "active"] * 10,
        "action": ["call", "wait", "wait", "call"] * 10,
        "reward": [-1.0, 0.0, 2.0, 1.0] * 10,
        "next_state": ["active", "churned", "active", "at risk"] * 10,
    }

    def test_states_that_are_never_left(self) -> None:
        for data in (self.LOG, pd.DataFrame(self.LOG)):
            with pytest.warns(NeverLeftWarning, match=r"'churned' is never left.*terminal=\['churned'\]"):
                tiny_agent().fit(data)
            agent = tiny_agent().fit(data, terminal=["churned"])
            assert transitions(agent)["at risk", "wait", "churned"] == (10, 10)
            assert agent.result.coverage.terminal.sum() == 1

    def test_gaps_need_times(self) -> None:
        log = {name: values for name, values in JOURNEY.items() if name != "time"}
        for data in (log, pd.DataFrame(log)):
            with pytest.raises(MdpfnError, match="max_gap is 3, but the log has no column of times"):
                tiny_agent().fit(data, columns=ROLES, max_gap=3)

    @pytest.mark.parametrize("terminal", [("at risk", "gold"), '["at risk", "gold"]'])
    def test_states_of_several_columns_as_files_spell_them(self, terminal: Any) -> None:
        log = {"place": ["new", "new"], "tier": ["gold", "basic"], "action": ["mail", "wait"], "reward": [1.0, 2.0]}
        log |= {"place2": ["at risk", "new"], "tier2": ["gold", "basic"]}
        columns = {"state": ["place", "tier"], "next_state": ["place2", "tier2"]}
        agent = tiny_agent().fit(log, columns=columns, terminal=[terminal])
        assert transitions(agent)[("new", "gold"), "mail", ("at risk", "gold")] == (1, 1)

    def test_logs_that_contradict_each_other_about_actions(self) -> None:
        log = {name: values[:3] * 10 for name, values in self.LOG.items()}
        agent = tiny_agent().fit(log, terminal=["churned"], available={"active": ["wait"]})
        known = contents(agent.statistics)
        with pytest.raises(MdpfnError, match="one log takes 'call' in 'active', where another says that it does not"):
            agent.partial_fit(self.LOG, terminal=["churned"])
        assert contents(agent.statistics) == known

    def test_a_terminal_state_is_worth_nothing(self) -> None:
        agent = Agent.from_pretrained().fit(self.LOG, terminal=["churned"])
        value = dict(zip(agent.plan().states, agent.result.value.by_state, strict=True))
        assert value["churned"] == 0 < value["at risk"]

    def test_rows_after_the_end_are_left_out(self) -> None:
        log = {name: [*values, last] for (name, values), last in zip(
            self.LOG.items(), ("churned", "wait", 9.0, "churned"), strict=True)}  # fmt: skip
        agent = tiny_agent().fit(log, terminal=["churned"])
        assert agent.statistics.n_transitions == 40
        assert "1 rows left out because they leave a state that was declared terminal" in str(agent.result)

    @pytest.mark.parametrize("rule", [False, True])
    def test_actions_that_do_not_exist(self, rule: bool) -> None:
        log = {name: values[:3] * 10 for name, values in self.LOG.items()}
        table = {"active": ["wait"]}
        available: Any = table.get if rule else table
        agent = Agent.from_pretrained().fit(log, terminal=["churned"], available=available)
        plan = agent.plan()
        active, call = plan.states.index("active"), plan.actions.index("call")
        assert plan.policy[active, call] == 0
        assert agent.predict("active")[0] == "wait"
        assert agent.act("active") == "wait"
