"""Opening a source of logged transitions: arrays, mappings, frames of any engine, files, Minari datasets."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from mdpfn.data import files
from mdpfn.data.columns import REQUIRED, TRANSITION, Columns, Given, by_roles, find_columns, listed
from mdpfn.data.frames import Table
from mdpfn.data.missing import taken
from mdpfn.data.place import Place
from mdpfn.errors import MdpfnError, shown

ROWS = 200_000  # in a piece
WIDTHS = range(len(REQUIRED), len(TRANSITION) + 1)  # of rows
KINDS = (
    "arrays (states, actions, rewards, next_states[, terminated[, truncated]]), a list of such tuples, a mapping of "
    "columns, a frame, .csv, .jsonl or .parquet files, a Minari dataset, or an iterator over any of these"
)


@dataclass(frozen=True)
class Source:
    """Transitions in pieces, each a mapping from role to values, with columns and spaces if the data has them."""

    pieces: Iterator[Mapping[str, Any]]
    columns: Columns | None = None  # role -> column name, where columns have names
    observation_space: Any = None
    action_space: Any = None
    ordered: bool = True  # whether rows stand in an order


def open_source(data: Any, columns: Given | None = None) -> Source | Table:
    """The transitions in `data`; `columns` says which column is which, where names do not tell."""
    if files.is_path(data):
        return _open_files(data, columns)
    if hasattr(data, "iterate_episodes"):
        return Source(_episodes(data), None, data.observation_space, data.action_space)
    if isinstance(data, Iterator) or type(data).__name__ == "RecordBatchReader":
        return _chained(iter(data), columns)
    frame = _frame(data)
    if frame is not None:
        names = find_columns(frame.collect_schema().names(), columns)
        return Table(frame, names, rows=lambda: rows_of_frame(frame, names))
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        names = find_columns(list(data.columns) if hasattr(data, "columns") else list(data), columns)
        return Source(_slices(data.__getitem__, names), names)
    if isinstance(data, np.ndarray) and data.dtype.names:
        return open_source({name: data[name] for name in data.dtype.names}, columns)
    if isinstance(data, np.ndarray) and data.ndim == 2:
        return open_source(tuple(data.T), columns)
    if isinstance(data, list) and data and isinstance(data[0], tuple):
        return Source(_rows(data))
    if isinstance(data, list) and data and all(isinstance(part, list) and len(part) in WIDTHS for part in data):
        limit = "these may be rows or columns"
        raise MdpfnError("transitions", "a list of lists", limit, "make rows tuples, or put columns into a tuple")
    if isinstance(data, list | tuple) and len(data) in WIDTHS:
        roles = dict(zip(TRANSITION, data, strict=False))
        return Source(_slices(roles.__getitem__, {role: role for role in roles}))
    raise MdpfnError("transitions", f"of type {type(data).__name__}", f"they must be {KINDS}", "convert them")


def _frame(data: Any) -> Any:
    """The frame as narwhals sees it; None if it is none."""
    if type(data).__name__ == "RecordBatch" and hasattr(data, "__arrow_c_array__"):
        import pyarrow

        data = pyarrow.Table.from_batches([data])
    try:
        found = nw.from_native(data, pass_through=True)
        if not isinstance(found, nw.DataFrame | nw.LazyFrame):
            return None
        found.collect_schema()
    except nw.exceptions.DuplicateError as error:
        text = " ".join(str(error).split())[:200]
        raise MdpfnError("columns", "ambiguous", text, "give every column a name of its own") from None
    return found


def rows_of_frame(frame: Any, names: Columns) -> Source:
    """The rows of a frame, brought here."""
    asked = files.listed_columns(names)
    eager = frame.select(*asked)
    eager = eager.collect() if isinstance(eager, nw.LazyFrame) else eager
    return Source(_slices(lambda name: eager[name].to_native(), names), names)


def _open_files(data: Any, given: Given | None) -> Source | Table:
    paths = files.paths_of(data)
    kind = files.kind_of(paths)
    if kind == "csv":
        layouts = files.csv_layouts(paths, given)
        scan, pieces = (lambda: files.csv_scan(layouts)), (lambda: files.csv_pieces(layouts))
        return _table(paths, layouts[0].columns, scan, pieces, text=True)
    if kind == "json":
        columns, lines = files.open_json(paths, given)
        return _table(paths, columns, lambda: files.json_scan(paths, columns), lines)
    columns, opened = files.open_parquet(paths, given)
    if isinstance(opened, Iterator):
        return Source(opened, columns)
    frame = nw.from_native(opened)
    return Table(frame, columns, rows=lambda: rows_of_frame(frame, columns))


def _table(
    paths: Sequence[Path],
    columns: Columns,
    scan: Callable[[], Any],
    pieces: Callable[[], Iterator[Any]],
    *,
    text: bool = False,
) -> Source | Table:
    """A table that polars scans; or rows by our own reader, if polars is not installed or cannot read the files.

    Compressed files go to our own reader, as polars would decompress them in memory as a whole.
    """

    def rows() -> Source:
        return Source(pieces(), columns)

    if not files.has_polars() or any(path.suffix.lower() == ".gz" for path in paths):
        return rows()
    import polars

    try:
        frame = nw.from_native(scan())
        frame.collect_schema()
    except (polars.exceptions.PolarsError, nw.exceptions.NarwhalsError, OSError):
        return rows()
    return Table(frame, columns, rows=rows, text=text)


def _chained(parts: Iterator[Any], columns: Given | None) -> Source:
    """One source from many; the first one determines the columns."""
    first = next(parts, None)
    if first is None:
        raise MdpfnError("transitions", "an empty iterator", "there must be at least one", "check where it comes from")
    source = as_rows(open_source(first, columns))

    def pieces() -> Iterator[Mapping[str, Any]]:
        yield from source.pieces
        for part in parts:
            more = as_rows(open_source(part, columns))
            if set(more.columns or ()) != set(source.columns or ()):
                found, known = (", ".join(each or ()) or "none" for each in (more.columns, source.columns))
                limit = f"the first one has {known}"
                raise MdpfnError("columns", f"{found} in a later part", limit, "give all parts the same columns")
            yield from more.pieces

    return Source(pieces(), source.columns, source.observation_space, source.action_space)


def as_rows(source: Source | Table) -> Source:
    """The rows of a source, one by one."""
    return source if isinstance(source, Source) else replace(source.rows(), ordered=source.ordered)


def _rows(transitions: list[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """Columns from tuples."""
    for start in range(0, len(transitions), ROWS):
        piece = transitions[start : start + ROWS]
        width = len(piece[0])
        if width not in WIDTHS or any(len(row) != width for row in piece):
            limit = f"each must hold {', '.join(REQUIRED)} and perhaps terminated and truncated, all of them alike"
            raise MdpfnError("transitions", f"tuples of {width}", limit, "complete them")
        columns = dict(zip(TRANSITION, (list(column) for column in zip(*piece, strict=True)), strict=False))
        yield columns | {"place": Place(first_row=start + 1)}


def _slices(get: Callable[[str], Any], names: Columns) -> Iterator[dict[str, Any]]:
    """Pieces of whole columns: arrays, lists, series of frames."""
    columns = {name: get(name) for name in files.listed_columns(names)}
    lengths = {}
    for name, column in columns.items():
        try:
            lengths[name] = len(column)
        except TypeError:
            role = next(role for role, named in names.items() if name in listed(named))
            limit = "every column must be an array of values"
            raise MdpfnError(role, shown(column), limit, "give one value per transition") from None
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} {n}" for name, n in lengths.items())
        raise MdpfnError(
            "the columns", f"of lengths {found}", "all must be equally long", "give one value per transition"
        )
    for start in range(0, next(iter(lengths.values())), ROWS):
        rows = slice(start, start + ROWS)
        piece = by_roles(names, lambda name, rows=rows: _values(columns[name], rows))
        yield piece | {"place": Place("", start + 1, names)}


def _values(column: Any, rows: slice) -> Any:
    if hasattr(column, "iloc"):
        return column.iloc[rows].to_numpy()
    piece = column[rows]
    if isinstance(piece, np.ma.MaskedArray):
        return piece.tolist() if np.ma.is_masked(piece) else piece.data
    return piece.to_numpy() if hasattr(piece, "to_numpy") else piece


def _episodes(dataset: Any) -> Iterator[dict[str, Any]]:
    """The transitions of every episode of a Minari dataset, whose observations also hold the last one."""
    for episode in dataset.iterate_episodes():
        n = len(episode.rewards)
        yield {
            "state": taken(episode.observations, np.arange(n)),
            "action": episode.actions,
            "reward": episode.rewards,
            "next_state": taken(episode.observations, np.arange(1, n + 1)),
            "terminated": episode.terminations,
            "truncated": episode.truncations,
        }
