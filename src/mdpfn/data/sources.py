"""Logged transitions from wherever they are, piece by piece: arrays, tables, frames, files, Minari."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdpfn.data.bounded import check_is_file
from mdpfn.data.columns import REQUIRED, ROLES, find_columns
from mdpfn.data.csv_file import read_csv
from mdpfn.errors import MdpfnError

ROWS = 200_000  # in a piece
WIDTHS = range(len(REQUIRED), len(ROLES) + 1)  # of rows
KINDS = (
    "arrays (states, actions, rewards, next_states[, terminated[, truncated]]), a list of such tuples, a mapping of "
    "columns, a pandas or polars frame, a .csv or .parquet file, a Minari dataset, or an iterator over any of these"
)


@dataclass(frozen=True)
class Source:
    """Transitions as pieces, each a mapping from role to values, and what else the data tells."""

    pieces: Iterator[Mapping[str, Any]]
    columns: dict[str, str] | None = None  # role -> column name, where columns have names
    observation_space: Any = None
    action_space: Any = None


def open_source(data: Any, columns: Mapping[str, str] | None = None) -> Source:
    """The transitions in `data`; `columns` names the columns that their names do not tell."""
    if isinstance(data, str | Path):
        return _open_file(Path(data), columns)
    if hasattr(data, "iterate_episodes"):
        return Source(_episodes(data), None, data.observation_space, data.action_space)
    if isinstance(data, Iterator):
        return _chained(data, columns)
    if hasattr(type(data), "collect"):  # a lazy frame of polars
        data = data.collect()
    if isinstance(data, Mapping) or hasattr(data, "columns"):
        names = find_columns(list(data.columns) if hasattr(data, "columns") else list(data), columns)
        return Source(_slices({role: data[name] for role, name in names.items()}), names)
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
        return Source(_slices(dict(zip(ROLES, data, strict=False))))
    raise MdpfnError("transitions", f"of type {type(data).__name__}", f"they must be {KINDS}", "convert them")


def _open_file(path: Path, columns: Mapping[str, str] | None) -> Source:
    check_is_file(path)
    kind = path.with_suffix("").suffix if path.suffix.lower() == ".gz" else path.suffix
    if kind.lower() in (".csv", ".tsv", ".txt"):
        names, pieces = read_csv(path, columns)
        return Source(pieces, names)
    if kind.lower() in (".parquet", ".pq"):
        return _open_parquet(path, columns)
    raise MdpfnError("the file", repr(str(path)), "its name must end in .csv, .tsv or .parquet", "convert it")


def _open_parquet(path: Path, columns: Mapping[str, str] | None) -> Source:
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError:
        limit = "Parquet needs pyarrow, which is not installed"
        raise MdpfnError("the file", repr(str(path)), limit, "pip install 'mdpfn[frames]'") from None
    try:
        file = ParquetFile(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise MdpfnError("the file", repr(str(path)), f"it could not be read ({error})", "check it") from None
    names = find_columns(file.schema_arrow.names, columns)

    def pieces() -> Iterator[dict[str, Any]]:
        with file:
            for batch in file.iter_batches(ROWS, columns=list(names.values())):
                yield {role: batch.column(name).to_numpy(zero_copy_only=False) for role, name in names.items()}

    return Source(pieces(), names)


def _chained(parts: Iterator[Any], columns: Mapping[str, str] | None) -> Source:
    """One source from many, of which the first tells the columns."""
    first = next(parts, None)
    if first is None:
        raise MdpfnError("transitions", "an empty iterator", "there must be at least one", "check where it comes from")
    source = open_source(first, columns)

    def pieces() -> Iterator[Mapping[str, Any]]:
        yield from source.pieces
        for part in parts:
            yield from open_source(part, columns).pieces

    return Source(pieces(), source.columns, source.observation_space, source.action_space)


def _rows(transitions: list[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """Columns from tuples."""
    for start in range(0, len(transitions), ROWS):
        piece = transitions[start : start + ROWS]
        width = len(piece[0])
        if width not in WIDTHS or any(len(row) != width for row in piece):
            limit = f"each must hold {', '.join(REQUIRED)} and perhaps terminated and truncated, all of them alike"
            raise MdpfnError("transitions", f"tuples of {width}", limit, "complete them")
        yield dict(zip(ROLES, (list(column) for column in zip(*piece, strict=True)), strict=False))


def _slices(columns: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Pieces of whole columns: arrays, lists, pandas or polars series."""
    lengths = {}
    for role, column in columns.items():
        try:
            lengths[role] = len(column)
        except TypeError:
            limit = "every column must be an array of values"
            raise MdpfnError(role, repr(column), limit, "give one value per transition") from None
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{role} {n}" for role, n in lengths.items())
        raise MdpfnError(
            "the columns", f"of lengths {found}", "all must be equally long", "give one value per transition"
        )
    for start in range(0, lengths["state"], ROWS):
        rows = slice(start, start + ROWS)
        yield {role: _values(column, rows) for role, column in columns.items()}


def _values(column: Any, rows: slice) -> Any:
    if hasattr(column, "iloc"):
        return column.iloc[rows].to_numpy()
    piece = column[rows]
    return piece.to_numpy() if hasattr(piece, "to_numpy") else piece


def _episodes(dataset: Any) -> Iterator[dict[str, Any]]:
    """The transitions of every episode of a Minari dataset, whose observations also hold the last one."""
    for episode in dataset.iterate_episodes():
        n = len(episode.rewards)
        yield {
            "state": _shifted(episode.observations, slice(0, n)),
            "action": episode.actions,
            "reward": episode.rewards,
            "next_state": _shifted(episode.observations, slice(1, n + 1)),
            "terminated": episode.terminations,
            "truncated": episode.truncations,
        }


def _shifted(batch: Any, rows: slice) -> Any:
    """Some rows of a batch of observations, however deep it is nested."""
    if isinstance(batch, dict):
        return {key: _shifted(part, rows) for key, part in batch.items()}
    return tuple(_shifted(part, rows) for part in batch) if isinstance(batch, tuple) else batch[rows]
