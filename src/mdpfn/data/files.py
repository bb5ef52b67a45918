"""Logs in files: one, several, all that a pattern matches, or all in a folder; read by polars where it is installed."""

import glob
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSequence, Sequence
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import Any

from mdpfn.data.bounded import check_is_file, open_text
from mdpfn.data.columns import FLAGS, Columns, Given, by_roles, find_columns, listed
from mdpfn.data.csv_file import NAME, SNIFFED_ROWS, Layout, alike, named_columns, read_csv, sniff
from mdpfn.data.place import DAMAGED, Place, damaged
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
        frames.append(frame.with_columns(_complete(layout.names, columns, schema)).select(columns))
    return polars.concat(frames) if len(frames) > 1 else frames[0]


def _complete(names: Sequence[str], columns: Sequence[str], schema: Mapping[str, Any]) -> Any:
    """The last column that is read, where no row seems to end before it.

    To polars such a row is one whose last field is empty. The careful reader, to which the error leads, tells them
    apart. A row in which all is empty is skipped anyway.
    """
    import polars

    last = max(columns, key=names.index)
    others = [name for name in dict.fromkeys([names[0], *columns]) if name != last]

    def checked(rows: Any) -> Any:
        lacks = rows.struct.field(last).is_null()
        if lacks.any() and any((lacks & rows.struct.field(name).is_not_null()).any() for name in others):
            raise ValueError("a row may have too few fields")
        return rows.struct.field(last)

    return polars.struct(last, *others).map_batches(checked, schema[last], is_elementwise=True).alias(last)


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
    """The columns of JSON lines, told from the first rows, and how to read the rows piece by piece."""
    keys = _keys(row for path in paths for row in islice(_json_rows(path, []), SNIFFED_ROWS))
    if not keys:
        raise MdpfnError("the file", repr(str(paths[0])), "it holds no rows", "check it")
    columns = find_columns(keys, given)
    # Many write flags only where they are true: an absent one is false, while one that is null is refused.
    absent = {columns[flag]: False for flag in FLAGS if flag in columns}

    def pieces() -> Iterator[dict[str, Any]]:
        for path in paths:
            n_read, empty = 0, array("q")
            rows = _json_rows(path, empty)
            while batch := list(islice(rows, ROWS)):
                _check_late(_keys(batch), columns)
                place = Place(path.name, n_read + 1, columns, empty=empty)
                n_read += len(batch)
                piece = by_roles(columns, lambda key, b=batch: [row.get(key, absent.get(key)) for row in b])
                yield piece | {"place": place}

    return columns, pieces


def _keys(rows: Iterable[dict[str, Any]]) -> list[str]:
    """All keys of these rows, each once."""
    return list(dict.fromkeys(chain.from_iterable(rows)))


def _check_late(keys: Sequence[str], columns: Columns) -> None:
    """Refuse keys that have a role and did not appear in the first rows, from which the columns were told."""
    found = find_columns(dict.fromkeys([*listed_columns(columns), *keys]), columns)
    for role in [role for role in found if role not in columns]:
        limit = f"it is in none of the first {SNIFFED_ROWS} rows, which tell the columns"
        raise MdpfnError(role, f"the key {found[role]!r}", limit, "write it in the first row as well, or rename it")


def _json_rows(path: Path, empty: MutableSequence[int]) -> Iterator[dict[str, Any]]:
    """The rows of a file of JSON lines; empty ones are skipped and noted, as in a `Place`."""
    n_read = 0
    try:
        with open_text(path) as file:
            for line in file:
                if not line.strip():
                    empty.append(n_read + 1)
                    continue
                n_read += 1
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    row = None
                if not isinstance(row, dict):
                    value = f"{line.strip()[:40]!r} in {Place(path.name, n_read, empty=empty).of(0)}"
                    raise MdpfnError("a line", value, "every line must be a JSON object", "repair it")
                yield row
    except DAMAGED as error:
        raise damaged(path, n_read + len(empty), error) from None


def json_scan(paths: Sequence[Path], columns: Columns) -> Any:
    """The rows as a lazy frame of polars, which does not tell absent flags from null: the careful reader does."""
    import polars

    frames = [polars.scan_ndjson(path, infer_schema_length=None) for path in paths]  # or it ignores late keys
    for frame in frames:
        _check_late(frame.collect_schema().names(), columns)
    return polars.concat([frame.select(listed_columns(columns)) for frame in frames])
