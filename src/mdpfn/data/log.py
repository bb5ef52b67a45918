"""Reading a log: from any source to statistics with names of states and actions, or to rows of vectors."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mdpfn.data.bins import binned_space, bins_of, check_names, edges_of_rows, labelled
from mdpfn.data.columns import Columns, NamedColumn, listed
from mdpfn.data.declared import declare_available, declare_terminal
from mdpfn.data.episodes import in_episodes
from mdpfn.data.frames import Table, check_order, grouped, holds_vectors
from mdpfn.data.options import LogOptions
from mdpfn.data.place import Place
from mdpfn.data.reader import DatasetReader
from mdpfn.data.sources import Source, as_rows, open_source
from mdpfn.data.vectors import VectorReader, are_vectors
from mdpfn.errors import MdpfnError
from mdpfn.evidence.statistics import Statistics
from mdpfn.spaces.binned import Binned
from mdpfn.spaces.encoding import SpaceEncoding
from mdpfn.spaces.vectors import is_vector_space
from mdpfn.weights.limits import Limits

Spaces = tuple[Any, Any]  # of observations and actions; None where none was given


@dataclass(frozen=True, eq=False)
class Logged:
    """A log that was read: counts, names of states and actions, where episodes start, and what was left out."""

    statistics: Statistics
    encoding: SpaceEncoding
    starts: Counter[int] | None = None  # None where the data does not tell
    columns: Mapping[str, Any] | None = None
    notes: Mapping[str, int] = field(default_factory=dict)  # what was left out or assumed -> in how many rows


def read_log(data: Any, spaces: Spaces, limits: Limits, log: LogOptions) -> Logged | VectorReader:
    """The log in `data`, with spaces and options as the user gave them."""
    source = open_source(data, log.columns)
    if source.columns is not None:
        _check_columns(source.columns, log)
    if isinstance(source, Table):
        check_order(source)
        found = _read_table(source, spaces, limits, log)
        if found is not None:
            return found
    return _read_rows(as_rows(source), spaces, limits, log)


def _check_columns(columns: Columns, log: LogOptions) -> None:
    check_names(columns, log.bins)
    if log.max_gap is not None and "time" not in columns:
        limit = "the log has no column of times"
        raise MdpfnError("max_gap", repr(log.max_gap), limit, "name it: columns={'time': …}, or leave max_gap out")
    if "next_state" in columns and len(listed(columns["next_state"])) != len(listed(columns["state"])):
        limit = f"the state is made of {len(listed(columns['state']))} columns"
        raise MdpfnError(
            "columns", f"{columns['next_state']!r} for next_state", limit, "name as many, in the same order"
        )


def _read_table(table: Table, spaces: Spaces, limits: Limits, log: LogOptions) -> Logged | None:
    """The log as aggregated by its engine; None where rows have to be read one by one."""
    if spaces[0] is not None and is_vector_space(spaces[0]):
        return None
    try:
        if holds_vectors(table, log):
            return None
        piece, edges = grouped(table, log)
    except (TypeError, NotImplementedError):  # columns that hold more than numbers and text, or no next rows
        return None
    except MdpfnError:
        if table.ordered:
            return None  # the careful reader names the row
        raise
    except Exception as error:
        if not table.ordered:
            raise _refused_by(table, error) from error
        return None  # the careful reader says what is wrong, or reads it
    if edges:
        space = binned_space(table.columns, edges)
        piece |= {role: labelled(piece[role], space) for role in ("state", "next_state")}
        spaces = (space, spaces[1])
    reader = DatasetReader(table.columns, *spaces, limits, log)
    try:
        reader.add(piece)
    except MdpfnError:
        if table.ordered:
            return None  # the careful reader names the row
        raise
    return _logged(reader, log)


def _refused_by(table: Table, error: Exception) -> MdpfnError:
    text = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return MdpfnError("the query", f"refused by {table.engine.capitalize()}", text, "check the columns and their types")


def _read_rows(source: Source, spaces: Spaces, limits: Limits, log: LogOptions) -> Logged | VectorReader:
    """The log, read row by row."""
    spaces = (
        source.observation_space if spaces[0] is None else spaces[0],
        source.action_space if spaces[1] is None else spaces[1],
    )
    columns = source.columns
    if columns is not None and "next_state" not in columns:
        source = replace(source, pieces=iter([_episodes(source, columns, log)]))
    if log.bins is not None:
        source, spaces = _binned_rows(source, spaces, log)
    vectors, source = are_vectors(source, spaces[0])
    if vectors:
        return VectorReader(source, *spaces, log)
    reader = DatasetReader(columns, *spaces, limits, log)
    for piece in source.pieces:
        reader.add(piece)
    return _logged(reader, log)


def _episodes(source: Source, columns: Columns, log: LogOptions) -> dict[str, Any]:
    return in_episodes(concatenated(list(source.pieces)), columns, log) | {"ordered": source.ordered}


def _logged(reader: DatasetReader, log: LogOptions) -> Logged:
    """The log, after what the user declared about it was applied."""
    statistics, encoding = reader.statistics(), reader.encoding()
    terminal: set[int] = set()
    n_left = 0
    if log.terminal is not None:
        statistics, terminal, n_left = declare_terminal(statistics, encoding.states, log.terminal)
    if log.available is not None:
        declare_available(statistics, encoding, log.available)
    reader.warn_of_never_left(terminal)
    notes = Counter(reader.notes)
    notes["rows left out because they leave a state that was declared terminal"] += n_left
    return Logged(statistics, encoding, reader.starts(), reader.columns, +notes)


def _binned_rows(source: Source, spaces: Spaces, log: LogOptions) -> tuple[Source, Spaces]:
    """Rows whose states are named after bins, and the space of these."""
    pieces = list(source.pieces)
    if source.columns is None or not pieces:
        limit = "they are for columns that have names"
        raise MdpfnError("bins", repr(log.bins), limit, "give a mapping of columns, a frame or a file")
    numbers, edges = {}, {}
    for i, name in enumerate(listed(source.columns["state"])):
        values = [np.asarray(_part(piece["state"], i, source.columns["state"])) for piece in pieces]
        numbers[name] = np.concatenate(values) if all(v.dtype.kind in "iuf" for v in values) else None
    with_point = {name for name, of_column in numbers.items() if _has_fractions(of_column)}
    floats = {name for name, of_column in numbers.items() if of_column is not None and of_column.dtype.kind == "f"}
    for name, of_column in numbers.items():
        bins = bins_of(name, log.bins, cut=name in (with_point or floats))
        if bins is not None and of_column is None:
            raise MdpfnError("bins", repr(name), "that column holds no numbers", "name a column of numbers")
        if bins is not None and of_column is not None:
            edges[name] = edges_of_rows(of_column.astype(np.float64), bins)
    space = binned_space(source.columns, edges)

    def binned() -> Iterator[dict[str, Any]]:
        for piece in pieces:
            yield {**piece, **{role: _labels(piece[role], space) for role in ("state", "next_state")}}

    return replace(source, pieces=binned()), (space if edges else spaces[0], spaces[1])


def _has_fractions(numbers: Any) -> bool:
    """Whether some of these are no whole numbers."""
    return numbers is not None and bool((numbers != np.floor(numbers))[~np.isnan(numbers)].any())


def _part(values: Any, i: int, named: str | Sequence[str]) -> Any:
    """One of the columns that make a state."""
    if isinstance(named, str):
        return values.numbers.astype(str) if isinstance(values, NamedColumn) else values
    return values[:, i] if isinstance(values, np.ndarray) else [row[i] for row in values]


def _labels(values: Any, space: Binned) -> list[Any]:
    rows = map(tuple, values.tolist()) if isinstance(values, np.ndarray) and values.ndim == 2 else list(values)
    return [None if value is None or value != value else space.label(value) for value in rows]


def concatenated(pieces: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All rows as one piece."""
    if not pieces:
        raise MdpfnError("transitions", "empty", "there must be at least one", "check where they come from")
    whole: dict[str, Any] = {}
    for role, value in pieces[0].items():
        parts = [piece[role] for piece in pieces]
        if role == "place":
            assert isinstance(value, Place)
            whole[role] = value if len({piece["place"].file for piece in pieces}) == 1 else replace(value, file="")
        elif role == "times":
            whole[role] = [_joined(columns) for columns in zip(*parts, strict=True)]
        else:
            whole[role] = _joined(parts)
    return whole


def _joined(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], NamedColumn):
        return NamedColumn(np.concatenate([part.numbers for part in parts]), parts[0].names)
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [value for part in parts for value in part]
