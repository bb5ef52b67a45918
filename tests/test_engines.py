"""The same log in every engine, and from several machines: the same statistics bit for bit."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mdpfn import Agent, MdpfnError, Statistics
from mdpfn.data import files
from mdpfn.evidence import Transition
from mdpfn.evidence.exact import digits, exact_sum, from_digits
from mdpfn.evidence.store import statistics_to_arrays
from tests.interface import tiny_agent

pytestmark = pytest.mark.filterwarnings(
    "ignore::mdpfn.coverage.CoverageWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)
EPISODES = {"episode": "customer", "state": ["place", "tier"]}


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    """Rewards that no float holds exactly, so that sums depend on their order unless care is taken."""
    rng = np.random.default_rng(0)
    n = 3000
    places = np.array(["home", "shop", "road"])
    frame = pd.DataFrame({"customer": rng.integers(60, size=n), "time": rng.permutation(n)})
    frame["place"], frame["tier"] = places[rng.integers(3, size=n)], rng.integers(2, size=n)
    frame["action"] = np.array(["stay", "go"])[rng.integers(2, size=n)]
    frame["reward"] = rng.normal(size=n) * 10.0 ** rng.integers(-2, 3, size=n)
    frame["next"], frame["done"] = places[rng.integers(3, size=n)], rng.random(n) < 0.1
    return frame


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster),
    ):
        yield cluster


def bits(agent: Agent) -> dict[str, Any]:
    """Everything the agent knows, by names in a fixed order, to the last bit."""
    plan, statistics = agent.plan(), agent.statistics
    states, actions = sorted(plan.states), sorted(plan.actions)
    moved = statistics.renumbered(
        np.array([states.index(state) for state in plan.states]),
        np.array([actions.index(action) for action in plan.actions]),
        len(states),
        len(actions),
    )
    arrays = statistics_to_arrays(moved.merge(Statistics(len(states), len(actions))))
    starts = agent.result.coverage.start_states
    found = {name: array.tobytes() for name, array in arrays.items()}
    return found | {"starts": starts and {plan.states[i]: n for i, n in starts.items()}}


def duckdb_relation(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("duckdb").connect().from_df(frame)


def ibis_table(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("ibis").memtable(frame)


def dask_frame(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=4)


ENGINES = {
    "polars": pl.from_pandas,
    "lazy polars": lambda frame: pl.from_pandas(frame).lazy(),
    "PyArrow": lambda frame: pa.Table.from_pandas(frame),
    "DuckDB": duckdb_relation,
    "Ibis": ibis_table,
    "Dask": dask_frame,
    "mapping": lambda frame: {name: frame[name].to_numpy() for name in frame},
}
COLUMNS = {
    "transitions": {"state": "place", "next_state": "next"},
    "episodes": EPISODES,
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", COLUMNS)
def test_every_engine_gives_the_same_bits(
    kind: str, engine: str, log: pd.DataFrame, request: pytest.FixtureRequest
) -> None:
    if engine == "Dask":
        request.getfixturevalue("cluster")
    columns = COLUMNS[kind]
    frame = log if kind == "transitions" else log.drop(columns=["next", "done"])
    expected = bits(tiny_agent().fit(frame, columns=columns))
    found = bits(tiny_agent().fit(ENGINES[engine](frame), columns=columns))
    if engine == "mapping" and kind == "transitions":
        del expected["starts"], found["starts"]  # shuffled rows one by one tell none
    assert found == expected
    total = np.frombuffer(expected["reward_sum"]).sum()
    np.testing.assert_allclose(total, log.reward.sum(), rtol=1e-12)
    assert np.frombuffer(expected["transition_count"]).sum() == len(log)


@pytest.mark.parametrize("engine", [*ENGINES, "pandas"])
@pytest.mark.parametrize(
    ("times", "customers", "says"),
    [
        (["28.02.2026", "01.03.2026", "02.03.2026"], [1, 1, 2], "sorts as text: make them datetimes"),
        (["2026-01-02 10:00", "2026-01-02 11:00", "2026-01-02 8:00"], [1, 1, 2], "'2026-01-02 8:00'"),
        (["2026-01-02T10:00:00+02:00", "2026-01-02T09:00:00Z", "2026-01-02T08:00:00Z"], [1, 1, 1], r"10:00:00\+02:00'"),
        (["2026-01-02T10:00", "2026-01-02 11:00", "2026-01-02 12:00"], [1, 1, 2], "another is '2026-01-02[T ]"),
        (["2026-01-02", "2026-01-02 11:00", "2026-01-02 12:00"], [1, 1, 2], "another is '2026-01-02"),
        (["2026-01-02 10:00:00", "2026-01-02 11:00:00Z", "2026-01-02 12:00:00Z"], [1, 1, 2], "another is"),
        (["2026-01-02 10:00:00Z", "2026-01-02 10:00:00.5Z", "2026-01-02 12:00:00Z"], [1, 1, 2], "another is"),
        (["2026-02-28", "2026-03-01", "2026-03-02"], [1, None, 2], "episode is empty"),
        (["2026-02-28", None, "2026-03-02"], [1, 1, 2], "time is empty"),
    ],
)
def test_times_and_episodes_must_be_there_and_sort(
    engine: str, times: list[Any], customers: list[Any], says: str, request: pytest.FixtureRequest
) -> None:
    if engine == "Dask":
        request.getfixturevalue("cluster")
    log = {"customer": customers, "time": times, "state": list("abc"), "action": list("xxx"), "reward": [0.0, 0.0, 1.0]}
    frame = pd.DataFrame(log)
    with pytest.raises(MdpfnError, match=says):
        tiny_agent().fit(frame if engine == "pandas" else ENGINES[engine](frame), columns={"episode": "customer"})


@pytest.mark.parametrize("engine", [*ENGINES, "pandas"])
@pytest.mark.parametrize(
    "times",
    [
        ["2026-01-02 10:00:00.5", "2026-01-02 10:00:00", "2026-01-02 10:00:00.55"],  # as Python writes datetimes
        ["2026-01-02T10:00:00.500Z", "2026-01-02T09:00:00.000Z", "2026-01-02T11:00:00.500Z"],
        ["2026-01-02 10:00", "2026-01-02 08:00", "2026-01-02 20:00"],
        ["2026-01-10", "2026-01-02", "2026-01-11"],
        pd.Categorical(["2026-01-10", "2026-01-02", "2026-01-11"], ["2026-01-10", "2026-01-02", "2026-01-11"]),
    ],
)
def test_times_that_are_written_alike_sort(engine: str, times: Any, request: pytest.FixtureRequest) -> None:
    if engine == "Dask":
        request.getfixturevalue("cluster")
    frame = pd.DataFrame({"time": times, "state": list("bac"), "action": list("xxx"), "reward": [0.0, 0.0, 1.0]})
    agent = tiny_agent().fit(frame if engine == "pandas" else ENGINES[engine](frame), max_gap=timedelta(days=30))
    z, states = agent.statistics.table(), agent.plan().states
    arrivals = zip(z.state[z.transition_row].tolist(), z.successor.tolist(), strict=True)
    assert {(states[s], states[t]) for s, t in arrivals} == {("a", "b"), ("b", "c"), ("c", "c")}


@pytest.mark.parametrize("engine", [*ENGINES, "pandas"])
@pytest.mark.parametrize(
    ("times", "gap", "says"),
    [
        (["2026-01-02", "2026-01-03", "2026-01-04"], 3, "times are dates: give a datetime.timedelta"),
        (pd.to_datetime(["2026-01-02", "2026-01-03", "2026-01-04"]), 3, "times are dates: give a datetime.timedelta"),
        ([1, 2, 3], timedelta(days=3), "times are numbers: give a number"),
    ],
)
def test_gaps_are_of_the_kind_of_times(
    engine: str, times: Any, gap: Any, says: str, request: pytest.FixtureRequest
) -> None:
    if engine == "Dask":
        request.getfixturevalue("cluster")
    frame = pd.DataFrame({"time": times, "state": list("abc"), "action": list("xxx"), "reward": [0.0, 0.0, 1.0]})
    with pytest.raises(MdpfnError, match=says):
        tiny_agent().fit(frame if engine == "pandas" else ENGINES[engine](frame), max_gap=gap)


@pytest.mark.parametrize("engine", ["DuckDB", "Dask", "Ibis"])
def test_bins_in_engines(engine: str, log: pd.DataFrame) -> None:
    frame = log.assign(level=log.reward.abs())
    columns = {"state": "level", "episode": "customer"}
    agent = tiny_agent().fit(ENGINES[engine](frame.drop(columns=["next", "done"])), columns=columns, bins=3)
    assert len(agent.plan().states) == 3
    visits = agent.statistics.table().visits_table().sum(axis=1)
    assert visits.sum() == len(log)
    assert visits.min() > 0.25 * len(log)  # Dask's quantiles are not exact


def test_rows_without_an_order_need_one(log: pd.DataFrame) -> None:
    relation = duckdb_relation(log.drop(columns=["next", "done", "time"]))
    with pytest.raises(MdpfnError, match="have no order"):
        tiny_agent().fit(relation, columns=EPISODES)
    tied = duckdb_relation(log.drop(columns=["next", "done"]).assign(time=0))
    with pytest.raises(MdpfnError, match="name more columns"):
        tiny_agent().fit(tied, columns=EPISODES)


def test_what_engines_cannot_read_is_one_sentence(log: pd.DataFrame) -> None:
    broken = log.assign(reward=[np.nan, *log.reward[1:]])
    with pytest.raises(MdpfnError, match="reward is empty in 1 row") as caught:
        tiny_agent().fit(duckdb_relation(broken), columns=COLUMNS["transitions"])
    assert len(str(caught.value)) < 200
    lacking = log.drop(columns=["next", "done"]).assign(tier=log.tier.astype(str).where(log.index != 7))
    with pytest.raises(MdpfnError, match="state is empty in 1 row"):
        tiny_agent().fit(duckdb_relation(lacking), columns=EPISODES)


class TestMachines:
    def parts(self, log: pd.DataFrame) -> list[pd.DataFrame]:
        """Of different sizes; not every part knows every state and action."""
        whole = log.drop(columns=["next", "done"]).sort_values("customer")
        cut = [whole[whole.customer < 5], whole[whole.customer.between(5, 29)], whole[whole.customer >= 30]]
        cut[0] = cut[0].assign(place=cut[0].place.replace("road", "home"))
        return cut

    def test_parts_in_any_order_are_the_whole_bit_for_bit(self, log: pd.DataFrame) -> None:
        parts = self.parts(log)
        expected = bits(tiny_agent().fit(pd.concat(parts), columns=EPISODES))
        policies = set()
        for order in itertools.permutations(parts):
            agent = tiny_agent()
            for part in order:
                agent.partial_fit(part, columns=EPISODES)
            assert bits(agent) == expected
            policies.add(agent.plan().policy.tobytes())
        assert len(policies) == 1

    def test_agents_of_several_machines(self, log: pd.DataFrame, tmp_path: Path) -> None:
        parts = self.parts(log)
        expected = bits(tiny_agent().fit(pd.concat(parts), columns=EPISODES, discount=0.9))
        for i, part in enumerate(parts):
            tiny_agent().fit(part, columns=EPISODES, discount=0.9).save(tmp_path / f"{i}")
        loaded = [Agent.load(tmp_path / f"{i}") for i in range(3)]
        inner = tiny_agent().partial_fit(loaded[2]).partial_fit(loaded[0])
        agent = tiny_agent().partial_fit(loaded[1]).partial_fit(inner)
        assert bits(agent) == expected
        assert agent.problem.options.discount == 0.9
        assert agent.result.columns == {**agent.result.columns, "episode": "customer"}

    def test_csv_in_parts(self, log: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Polars and the careful reader give the same bits, in one file or in many."""
        log.to_csv(tmp_path / "all.csv", index=False)
        halves = [tmp_path / "a.csv", tmp_path / "b.csv"]
        log[:1000].to_csv(halves[0], index=False)
        log[1000:].to_csv(halves[1], index=False)
        columns = COLUMNS["transitions"]
        found = [bits(tiny_agent().fit(data, columns=columns)) for data in (tmp_path / "all.csv", halves, halves[::-1])]
        monkeypatch.setattr(files, "has_polars", lambda: False)
        found.append(bits(tiny_agent().fit(halves, columns=columns)) | {"starts": found[0]["starts"]})
        assert all(each == found[0] for each in found)

    def test_what_does_not_fit_together_is_refused(self, log: pd.DataFrame) -> None:
        agent = tiny_agent().fit(log, columns=COLUMNS["transitions"])
        before = bits(agent)
        with pytest.raises(MdpfnError, match="space"):
            agent.partial_fit(([0, 1], [0, 1], [1.0, 2.0], [1, 0]))
        vectors = (np.zeros((4, 2)), [0, 1, 0, 1], np.ones(4), np.ones((4, 2)))
        with pytest.raises(MdpfnError, match="fit all rows at once"):
            agent.partial_fit(vectors)
        assert bits(agent) == before

    def test_ids_grow(self) -> None:
        agent = tiny_agent().fit(([0, 1], [0, 1], [1.0, 2.0], [1, 0]))
        agent.partial_fit(([2, 0], [2, 0], [0.5, 0.1], [0, 2]))
        assert agent.statistics.n_states == agent.statistics.n_actions == 3
        assert agent.statistics.n_transitions == 4


def test_sums_are_exact() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=1000) * 10.0 ** rng.integers(0, 6, size=1000)
    values = values[np.abs(values) >= 1]  # below 1, bits behind the 52nd are cut off
    assert from_digits(digits(values).sum(axis=1, keepdims=True)) == [exact_sum(values.tolist())]
    assert exact_sum([1e16, 1.0, -1e16]) == (1.0,)
    assert exact_sum([]) == (0.0,)


def test_merging_is_exact_and_survives_being_saved(tmp_path: Path) -> None:
    parts = []
    for reward in (0.1, 0.2, 0.3, 1e9, -1e9, 0.7):
        parts.append(Statistics(2, 2))
        parts[-1].add(Transition(0, 1, reward, 1))
    totals = set()
    for order in itertools.permutations(parts):
        merged = order[0]
        for i, part in enumerate(order[1:]):
            merged = merged.merge(part) if i % 2 else part.merge(merged)
        totals.add((merged.table().reward_sum[0], merged.table().reward_square_sum[0]))
    assert len(totals) == 1
    partial = parts[3].merge(parts[0])
    partial.save(tmp_path / "z")
    assert Statistics.load(tmp_path / "z").rests == partial.rests != {}
    assert Statistics.load(tmp_path / "z").merge(parts[4]).table().reward_sum[0] == 0.1


def test_masks_of_machines_add_up() -> None:
    first, second = Statistics(2, 2), Statistics(2, 2)
    first.allow(0, (True, False))
    second.allow(0, (False, True))
    assert first.merge(second).mask(0) == second.merge(first).mask(0) == (True, True)
