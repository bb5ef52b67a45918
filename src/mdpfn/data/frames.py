"""Logs in the frames of any engine that narwhals supports, aggregated there by one query.

These are pandas, polars (eager and lazy), PyArrow, DuckDB, Ibis, Dask and PySpark. A billion rows on a cluster become
one row per distinct transition, and only these are fetched.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

import narwhals as nw
import numpy as np

from mdpfn.arrays import Floats
from mdpfn.data.bins import bins_of, quantile_levels, rounded_edges
from mdpfn.data.columns import FLAGS, Columns, done_means_both, listed
from mdpfn.data.csv_file import TRUE, truths
from mdpfn.data.episodes import (
    BEFORE_FINAL,
    FINAL,
    GAP,
    GOES_ON,
    ISO_TIME,
    LAST,
    NO_FORM,
    check_gap,
    not_sortable,
    sortable_form,
)
from mdpfn.data.options import LogOptions
from mdpfn.errors import MdpfnError
from mdpfn.evidence.exact import DIGIT
from mdpfn.evidence.sums import Rewards
from mdpfn.spaces.binned import Edges

Frame = Any  # a frame of narwhals, eager or lazy
ROW = "row"  # where rows stand, in logs that have an order
UNORDERED = ("DUCKDB", "IBIS", "DASK", "PYSPARK", "SPARK", "SQLFRAME")


@dataclass(frozen=True)
class Table:
    """A frame with a column for every role, and a way to read its rows one by one if it cannot be aggregated."""

    frame: Frame
    columns: Columns
    rows: Callable[[], Any]  # the careful reader of the same rows, as a Source
    text: bool = False  # whether flags are words and names may have spaces around them

    @property
    def engine(self) -> str:
        """The name of the engine, as narwhals has it."""
        return str(self.frame.implementation.name)

    @property
    def ordered(self) -> bool:
        """Whether rows stand in an order."""
        return not self.engine.startswith(UNORDERED)


def scalar_types(table: Table) -> dict[str, Any]:
    """Column -> its type; raises a TypeError where a column holds more than a number, a text or a date per row."""
    schema = table.frame.collect_schema()
    types = {name: schema[name] for columns in table.columns.values() for name in listed(columns)}
    for name, dtype in types.items():
        if dtype.is_nested() or isinstance(dtype, nw.Object | nw.Unknown | nw.Binary):
            raise TypeError(name)
    return types


def holds_vectors(table: Table, log: LogOptions) -> bool:
    """Whether states are several columns of numbers, some of them with a point, and not cut into bins."""
    if isinstance(table.columns["state"], str) or log.bins is not None:
        return False
    types = [scalar_types(table)[name] for name in table.columns["state"]]
    return all(dtype.is_numeric() for dtype in types) and any(map(_has_point, types))


def _has_point(dtype: Any) -> bool:
    return bool(dtype.is_float() or dtype.is_decimal())


def grouped(table: Table, log: LogOptions) -> tuple[dict[str, Any], dict[str, Edges]]:
    """One piece whose rows are distinct transitions with sums; and the edges of bins, by column of the state."""
    types = scalar_types(table)
    reward = types[str(table.columns["reward"])]
    if not (reward.is_numeric() or reward == nw.Boolean):
        raise TypeError("reward")
    frame = _selected(table)
    edges = _edges(table, frame, types, log)
    frame = _binned(frame, table.columns, edges)
    if "next_state" not in table.columns:
        frame = _with_next_rows(frame, table, log)
    frame, sums = _sums(frame, weighted="count" in table.columns)
    keys = [name for name in frame.collect_schema().names() if name.startswith(("key ", "flag"))]
    if table.ordered:
        sums.append(nw.col(ROW).min().alias(ROW))
    out = _collected(frame.group_by(*keys).agg(*sums))
    for key in keys:
        if key.startswith("key form "):
            _check_forms(frame, key, out[key].to_list())
    return _piece(out, keys, table), edges


def _selected(table: Table) -> Frame:
    """The columns of all roles, renamed; those to group by begin with "key" or "flag"."""
    frame, columns = table.frame, table.columns
    if table.ordered and isinstance(frame, nw.LazyFrame):
        frame = nw.from_native(frame.to_native().with_row_index("mdpfn row"))  # polars
    elif table.ordered:
        frame = frame.with_row_index("mdpfn row")
    renamed = [nw.col("mdpfn row").alias(ROW)] if table.ordered else []
    schema = frame.collect_schema()
    for role, named in columns.items():
        prefix = "key " if role in ("state", "action", "next_state") else "flag " if role in FLAGS else ""
        for i, name in enumerate(listed(named)):
            is_text = role == "time" and isinstance(schema[name], nw.Categorical | nw.Enum)  # of which codes would sort
            column = nw.col(name).cast(nw.String) if is_text else nw.col(name)
            if role == "episode" and table.text and schema[name] == nw.String:
                column = column.str.strip_chars()  # other names are stripped when they have come back
            renamed.append(column.alias(f"{prefix}{role} {i}"))
    return frame.select(*renamed)


def _edges(table: Table, frame: Frame, types: Mapping[str, Any], log: LogOptions) -> dict[str, Edges]:
    """The edges of bins by column of the state: as given, or such that each holds equally many rows."""
    edges: dict[str, Edges] = {}
    wanted: dict[str, tuple[str, Floats]] = {}
    for i, name in enumerate(listed(table.columns["state"])):
        bins = bins_of(name, log.bins, cut=_has_point(types[name]))
        if bins is None:
            continue
        if not types[name].is_numeric():
            raise MdpfnError("bins", repr(name), "that column holds no numbers", "name a column of numbers")
        if isinstance(bins, int):
            wanted[name] = (f"key state {i}", quantile_levels(bins))
        else:
            edges[name] = tuple(map(float, bins))
    return edges | _quantiles(table, frame, wanted)


def _quantiles(table: Table, frame: Frame, wanted: Mapping[str, tuple[str, Floats]]) -> dict[str, Edges]:
    if not wanted:
        return {}
    values = {column: nw.col(column) for column, _ in wanted.values()}
    known = {column: ~(value.is_null() | value.cast(nw.Float64).is_nan()) for column, value in values.items()}
    frame = frame.with_columns(*(nw.when(known[column]).then(value).alias(column) for column, value in values.items()))
    if table.engine == "DASK":  # whose quantiles are its own
        native = frame.to_native()
        found = {name: native[column].quantile(q.tolist()).compute().tolist() for name, (column, q) in wanted.items()}
        return {name: rounded_edges(values) for name, values in found.items()}
    asked = [
        nw.col(column).quantile(float(level), "linear").alias(f"{name} {i}")
        for name, (column, levels) in wanted.items()
        for i, level in enumerate(levels)
    ]
    row = _collected(frame.select(*asked))
    return {
        name: rounded_edges([row[f"{name} {i}"].to_list()[0] for i in range(len(levels))])
        for name, (_, levels) in wanted.items()
    }


def _binned(frame: Frame, columns: Columns, edges: Mapping[str, Edges]) -> Frame:
    """The frame with numbers of bins in the place of values; missing values stay missing."""
    numbered = []
    for i, name in enumerate(listed(columns["state"])):
        for column in [f"key {role} {i}" for role in ("state", "next_state") if name in edges and role in columns]:
            value = nw.col(column)
            above = [(value >= nw.lit(edge)).cast(nw.Int64) for edge in edges[name]]
            number = reduce(lambda a, b: a + b, above, nw.lit(0).cast(nw.Int64))
            numbered.append(nw.when(~(value.is_null() | value.cast(nw.Float64).is_nan())).then(number).alias(column))
    return frame.with_columns(*numbered) if numbered else frame


def check_order(table: Table) -> None:
    """Refuse rows without an order where the next one says what followed."""
    if not table.ordered and "next_state" not in table.columns and "time" not in table.columns:
        limit = f"rows of {table.engine.capitalize()} have no order of their own"
        raise MdpfnError("columns", "without time", limit, "name the column that orders them: columns={'time': …}")


def _with_next_rows(frame: Frame, table: Table, log: LogOptions) -> Frame:
    """The rules of `episodes.py`, as a query."""
    n_times = len(listed(table.columns.get("time", [])))
    order = [f"time {i}" for i in range(n_times)] + ([ROW] if table.ordered else [])
    if log.max_gap is not None and n_times:
        dtype = frame.collect_schema()["time 0"]
        check_gap(log.max_gap, dates=dtype.is_temporal() or dtype == nw.String)
    if "episode" not in table.columns:
        frame = frame.with_columns(nw.lit(0).alias("episode 0"))
    if table.engine == "DASK":
        return _by_partitions(frame, table, log, order, n_times)
    return _next_rows(frame, table.columns, log, order, n_times)


def _by_partitions(frame: Frame, table: Table, log: LogOptions, order: list[str], n_times: int) -> Frame:
    """Next rows in Dask, which cannot shift rows: every episode is moved to one partition, where pandas does it."""
    episode = frame.to_native().shuffle("episode 0")
    columns = table.columns

    def of_partition(rows: Any) -> Any:
        return _next_rows(nw.from_native(rows), columns, log, order, n_times).to_native()

    return nw.from_native(episode.map_partitions(of_partition))


def _next_rows(frame: Frame, columns: Columns, log: LogOptions, order: Sequence[str], n_times: int) -> Frame:
    states = range(len(listed(columns["state"])))
    times = [f"time {i}" for i in range(n_times)]
    schema = frame.collect_schema()
    texts = {i: nw.col(time) for i, time in enumerate(times) if schema[time] == nw.String}
    wrong = {i: ~text.str.contains(ISO_TIME) & ~text.is_null() for i, text in texts.items()}
    frame = frame.with_columns(
        nw.when(wrong[i]).then(nw.lit(NO_FORM)).otherwise(text.str.replace_all("[0-9]", "0")).alias(f"key form {i}")
        for i, text in texts.items()
    )
    over, cut = (_truth(f"flag {role} 0", schema) if role in columns else nw.lit(False) for role in FLAGS)
    if done_means_both(columns):
        over = over & ~cut
    frame = frame.with_columns(*(nw.when(flag).then(1).otherwise(0).alias(name) for name, flag in
                                 (("over", over | cut), ("cut", cut & ~over))))  # fmt: skip
    broken = log.max_gap is not None and bool(times)  # by gaps
    if broken:
        time = nw.col("time 0")
        form = "ISO8601" if frame.implementation.is_pandas_like() else None  # which else takes that of the first row
        clock = nw.when(~wrong[0]).then(time).str.to_datetime(form) if 0 in texts else time
        frame = frame.with_columns(clock=time.cast(nw.Datetime) if schema["time 0"] == nw.Date else clock)

    def moved(column: str, by: int) -> Any:
        return nw.col(column).shift(by).over("episode 0", order_by=order)

    frame = frame.with_columns(
        *(moved(f"key state {i}", -1).alias(f"key next_state {i}") for i in states),
        *(moved(time, -1).alias(f"next {time}") for time in times),
        moved("episode 0", -1).is_null().alias("last"),
        moved("episode 0", -2).is_null().alias("last but one"),
        moved("episode 0", 1).is_null().alias("first"),
        moved("over", 1).alias("over before"),
        moved("key action 0", -1).is_null().alias("no next action"),
        *([moved("clock", -1).alias("next clock"), moved("clock", 1).alias("clock before")] if broken else []),
    )
    last, nothing = nw.col("last"), nw.lit(False)
    final = last & nw.col("key action 0").is_null()
    before_final = ~last & nw.col("last but one") & nw.col("no next action")
    tie = reduce(and_, [nw.col(time) == nw.col(f"next {time}") for time in times]) if times else nothing
    gap = late = nothing
    if broken:
        gap = (nw.col("next clock") - nw.col("clock")) > nw.lit(log.max_gap)
        late = (nw.col("clock") - nw.col("clock before")) > nw.lit(log.max_gap)
    kind = nw.lit(GOES_ON)
    cut_off = nw.col("cut") == 1
    for condition, number in ((cut_off, GAP), (before_final, BEFORE_FINAL), (gap, GAP), (last, LAST), (final, FINAL)):
        kind = nw.when(condition).then(nw.lit(number)).otherwise(kind)
    no_time = reduce(or_, [nw.col(time).is_null() for time in times], nothing)
    if log.missing == "drop" and times:
        frame = frame.with_columns(nw.when(no_time).then(1).otherwise(0).alias("timeless"))
        no_time = nw.col("timeless").max().over("episode 0") == 1
    start = (nw.col("first") | late | (nw.col("over before") == 1)) & ~final
    return frame.with_columns(
        kind.cast(nw.Int64).alias("key kind 0"),
        nw.col("episode 0").is_null().alias("key no_episode 0"),
        no_time.alias("key no_time 0"),
        nw.when(start).then(nw.lit(1.0)).otherwise(nw.lit(0.0)).alias("starts"),
        nw.when(tie & ~last).then(nw.lit(1.0)).otherwise(nw.lit(0.0)).alias("ties"),
    )


def _truth(column: str, schema: Mapping[str, Any]) -> Any:
    """Whether a flag is set, as far as a query can tell; what is no flag is refused later."""
    flag, dtype = nw.col(column), schema[column]
    if dtype == nw.Boolean:
        return flag
    if dtype == nw.String:
        return flag.str.strip_chars().str.to_lowercase().is_in(TRUE)
    return flag == 1 if dtype.is_numeric() else nw.lit(False)


def _check_forms(frame: Frame, key: str, found: Sequence[Any]) -> None:
    """Refuse times as text that do not sort, given how they are written; the error names some."""
    there = list(dict.fromkeys(form for form in found if isinstance(form, str)))
    forms = {sortable_form(form): form for form in there}
    if NO_FORM not in forms and len(forms) < 2:
        return

    def one(form: str) -> str:
        text = nw.col(key.replace("key form", "time"))
        return str(_collected(frame.filter(nw.col(key) == form).select(text.alias("time")).head(1))["time"][0])

    shown = [NO_FORM] if NO_FORM in forms else sorted(forms.values())[:2]
    raise not_sortable(*map(one, shown))


def _sums(frame: Frame, *, weighted: bool) -> tuple[Frame, list[Any]]:
    """The frame with the columns to sum, and their sums; rows without a reward make groups of their own."""
    reward = nw.col("reward 0").cast(nw.Float64)
    missing = reward.is_null() | reward.is_nan()
    if weighted:
        count = nw.col("count 0").cast(nw.Float64)
        missing = missing | count.is_null() | count.is_nan()
    frame = frame.with_columns(missing.alias("key no_reward 0"))
    given = ~nw.col("key no_reward 0")
    frame = frame.with_columns(
        nw.when(given).then(reward).otherwise(nw.lit(0.0)).alias("reward"),
        *([nw.when(given).then(count).otherwise(nw.lit(1.0)).alias("count")] if weighted else []),
    )
    names = frame.collect_schema().names()
    r = nw.col("reward")
    total, squares = (r * nw.col("count"), r * r * nw.col("count")) if weighted else (r, r * r)
    columns = [total.alias("total"), squares.alias("squares")]
    frame = frame.with_columns(*columns)
    for name, letter in (("total", "t"), ("squares", "s")):
        frame = frame.with_columns(nw.col(name).floor().alias(f"{letter}0"))
        frame = frame.with_columns(((nw.col(name) - nw.col(f"{letter}0")) * DIGIT).alias(f"{letter}r"))
        frame = frame.with_columns(nw.col(f"{letter}r").floor().alias(f"{letter}1"))
        second = (nw.col(f"{letter}r") - nw.col(f"{letter}1")) * DIGIT
        frame = frame.with_columns(second.floor().alias(f"{letter}2"))
    summed = ["total", "squares", "t0", "t1", "t2", "s0", "s1", "s2"]
    summed += [name for name in ("starts", "ties") if name in names]
    sums = [nw.col(name).sum().alias(name) for name in summed]
    sums += [r.min().alias("low"), r.max().alias("high")]
    return frame, [nw.col("count").sum().alias("count") if weighted else nw.len().alias("count"), *sums] + (
        [nw.col("count").min().alias("least")] if weighted else []
    )


def _collected(frame: Frame) -> Any:
    """The rows of a query."""
    if isinstance(frame, nw.DataFrame):
        return frame
    return frame.collect(engine="streaming") if frame.implementation.is_polars() else frame.collect()


def _piece(out: Any, keys: Sequence[str], table: Table) -> dict[str, Any]:
    """The groups as a piece: role -> values, with sums of rewards."""
    columns = {name: out[name].to_list() for name in keys}
    totals = {name: out[name].to_numpy().astype(np.float64) for name in out.columns if name not in keys}
    order = np.argsort(totals[ROW]) if table.ordered else sorted(range(len(out)), key=lambda i: _sort_key(columns, i))
    columns = {name: _plain([values[i] for i in order], table.text) for name, values in columns.items()}
    totals = {name: values[order] for name, values in totals.items()}
    piece: dict[str, Any] = {}
    for role in ("state", "action", "next_state"):
        named = table.columns.get(role, table.columns["state"])
        several = [columns[f"key {role} {i}"] for i in range(len(listed(named)))]
        piece[role] = several[0] if isinstance(named, str) else list(zip(*several, strict=True))
    for name, values in columns.items():
        _, role, _ = name.split()
        if name.startswith("flag"):
            piece[role] = truths(["" if v is None else v for v in values]) if table.text else values
        elif role in ("kind", "no_episode", "no_time", "no_reward"):
            piece[role] = np.array(values, dtype=np.int64 if role == "kind" else bool)
    sums = {field: totals[field] for field in ("count", "total", "squares", "low", "high")}
    exact = {f"{field}_digits": np.stack([totals[f"{field[0]}{i}"] for i in range(3)]) for field in ("total", "square")}
    piece["rewards"] = Rewards(**sums, **exact)
    piece |= {name: totals[name] for name in ("starts", "least") if name in totals}
    if "ties" in totals:
        piece["ties"] = int(totals["ties"].sum())
    return piece | {"ordered": table.ordered}


def _sort_key(columns: Mapping[str, list[Any]], row: int) -> list[str]:
    return [repr(values[row]) for values in columns.values()]


def _plain(values: list[Any], text: bool) -> list[Any]:
    """Values of a column; of text, names without the spaces around them, and None for nothing."""
    if not text:
        return values
    return [value.strip() or None if isinstance(value, str) else value for value in values]
