"""Logs in files: one, several, all that a pattern matches, or all in a folder; read by polars where it is installed."""

import glob
import json
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from mdpfn.data.bounded import check_is_file, open_text
from mdpfn.data.columns import Columns, Given, by_roles, find_columns, listed
from mdpfn.data.csv_file import NAME, Layout, alike, named_columns, read_csv, sniff
from mdpfn.data.place import Place
from mdpfn.errors import MdpfnError

ROWS = 200_000  # in a piece
KINDS = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet", ".jsonl": "json",
    ".ndjson": "json",
}  # fmt: skip


def is_path(data: Any) -> bool:
    """Whether this names a file, or several."""
    if isinstance(data, list | tuple) and data and all(isinstance(part, str | Path) for part in data):
        return not isinstance(data, tuple)
    return isinstance(data, str | Path)


def paths_of(data: Any) -> list[Path]:
    """The files that are meant, in order."""
    if isinstance(data, list):
        return [path for part in data for path in paths_of(part)]
    path = Path(data)
    try:
        is_folder, exists = path.is_dir(), path.exists()
    except OSError:
        check_is_file(path)  # which says what is wrong with it
        raise
    if is_folder:
        return _in_folder(path)
    if not exists and glob.has_magic(str(data)):
        matching = sorted(map(Path, glob.glob(str(data), recursive=True)))
        if not matching:
            raise MdpfnError("the pattern", repr(str(data)), "no file matches it", "check the path")
        return matching
    return [path]


def _in_folder(path: Path) -> list[Path]:
    """The logs right in a folder; a pattern such as folder/**/*.csv goes deeper."""
    try:
        found = sorted(each for each in path.iterdir() if _suffix(each) in KINDS and each.is_file())
    except OSError as error:
        limit = f"it cannot be read ({error.strerror})"
        raise MdpfnError("the folder", repr(str(path)), limit, "check the path") from None
    if not found:
        limit = f"no file in it ends in {', '.join(KINDS)}"
        raise MdpfnError("the folder", repr(str(path)), limit, "check the path, or give a pattern such as **/*.csv")
    return found


def kind_of(paths: Sequence[Path]) -> str:
    """The kind of these files, which must be the same for all."""
    for path in paths:
        check_is_file(path)
    kinds = {KINDS.get(_suffix(path), "") for path in paths}
    if "" in kinds:
        wrong = next(path for path in paths if _suffix(path) not in KINDS)
        limit = "its name must end in .csv, .tsv, .jsonl or .parquet (.gz after it if packed)"
        raise MdpfnError("the file", repr(str(wrong)), limit, "convert it")
    if len(kinds) > 1:
        raise MdpfnError("the files", f"of kinds {', '.join(sorted(kinds))}", "all must be of one", "convert some")
    return kinds.pop()


def _suffix(path: Path) -> str:
    return (path.with_suffix("").suffix if path.suffix.lower() == ".gz" else path.suffix).lower()


def csv_layouts(paths: Sequence[Path], given: Given | None) -> list[Layout]:
    """The formats of CSV files, which must have the same columns."""
    layouts = alike([sniff(path, given) for path in paths])
    for layout in layouts:
        if layout.columns != layouts[0].columns:
            limit = f"in {layouts[0].path.name!r} they are {', '.join(listed_columns(layouts[0].columns))}"
            used = ", ".join(listed_columns(layout.columns))
            raise MdpfnError(f"the columns of {layout.path.name!r}", used, limit, "use files that are alike")
    return layouts


def csv_pieces(layouts: Sequence[Layout]) -> Iterator[dict[str, Any]]:
    """The rows of CSV files with these layouts, by the careful reader."""
    numbers = named_columns(layouts[0])
    for layout in layouts:
        yield from read_csv(layout, numbers)


def csv_scan(layouts: Sequence[Layout]) -> Any:
    """The rows of CSV files with these layouts, as a lazy frame of polars."""
    import polars

    types = {NAME: polars.String, "i8": polars.Int64, "f8": polars.Float64}
    columns = listed_columns(layouts[0].columns)
    frames = []
    for layout in layouts:
        schema = {name: types.get(layout.kinds.get(name, ""), polars.String) for name in layout.names}
        numeric = [name for name, kind in layout.kinds.items() if kind in ("i8", "f8")]
        frame = polars.scan_csv(
            layout.path,
            schema=schema,
            separator=layout.delimiter,
            decimal_comma=layout.decimal_comma,
            null_values=dict.fromkeys(numeric, "NA"),
        )
        frames.append(frame.select(columns))
    return polars.concat(frames) if len(frames) > 1 else frames[0]


def listed_columns(columns: Columns) -> list[str]:
    """All columns that are read, each once."""
    return list(dict.fromkeys(name for named in columns.values() for name in listed(named)))


def has_polars() -> bool:
    """Whether polars can read for us."""
    return find_spec("polars") is not None


def open_parquet(paths: Sequence[Path], given: Given | None) -> tuple[Columns, Any]:
    """The columns, and a lazy frame of polars or pieces by PyArrow."""
    if has_polars():
        import polars

        try:
            frame = polars.scan_parquet(list(paths), hive_partitioning=False)
            return find_columns(frame.collect_schema().names(), given), frame
        except (OSError, polars.exceptions.PolarsError) as error:
            raise _unreadable(paths, error) from None
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError:
        limit = "Parquet needs polars or pyarrow, which are not installed"
        raise MdpfnError("the file", repr(str(paths[0])), limit, "pip install 'mdpfn[frames]'") from None
    try:
        files = [ParquetFile(path) for path in paths]
    except (OSError, pyarrow.ArrowException) as error:
        raise _unreadable(paths, error) from None
    columns = find_columns(files[0].schema_arrow.names, given)

    def pieces() -> Iterator[dict[str, Any]]:
        for path, file in zip(paths, files, strict=True):
            n_read = 1
            with file:
                for batch in file.iter_batches(ROWS, columns=listed_columns(columns)):
                    piece = by_roles(columns, lambda c, b=batch: b.column(c).to_numpy(zero_copy_only=False))
                    yield piece | {"place": Place(path.name, n_read, columns)}
                    n_read += batch.num_rows

    return columns, pieces()


def _unreadable(paths: Sequence[Path], error: Exception) -> MdpfnError:
    text = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return MdpfnError("the file", repr(str(paths[0])), f"it could not be read ({text})", "check it")


def open_json(paths: Sequence[Path], given: Given | None) -> tuple[Columns, Callable[[], Iterator[dict[str, Any]]]]:
    """The columns of JSON lines, and how to read the rows piece by piece."""
    first = next(_json_rows(paths[0]), None)
    if first is None:
        raise MdpfnError("the file", repr(str(paths[0])), "it holds no rows", "check it")
    columns = find_columns(list(first[1]), given)

    def pieces() -> Iterator[dict[str, Any]]:
        for path in paths:
            rows = _json_rows(path)
            while batch := list(islice(rows, ROWS)):
                place = Place(path.name, batch[0][0], columns)
                yield by_roles(columns, lambda name, b=batch: [row.get(name) for _, row in b]) | {"place": place}

    return columns, pieces


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a file of JSON lines, with their numbers."""
    try:
        with open_text(path) as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except ValueError:
                    row = None
                if not isinstance(row, dict):
                    value = f"{line.strip()[:40]!r} in {Place(path.name, number).of(0)}"
                    raise MdpfnError("a line", value, "every line must be a JSON object", "repair it")
                yield number, row
    except OSError as error:
        raise MdpfnError("the file", repr(str(path)), f"it could not be read ({error})", "check the path") from None


def json_scan(paths: Sequence[Path], columns: Columns) -> Any:
    """The rows as a lazy frame of polars."""
    import polars

    return polars.concat([polars.scan_ndjson(path).select(listed_columns(columns)) for path in paths])
