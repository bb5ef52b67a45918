"""Result files: tidy CSV, one row per measurement, which repeated and interrupted runs continue.

Work is done in *cells*: a method on an environment, all seeds together. The rows of a cell enter the file
at once, the file is replaced atomically, and its cells are sorted, so what it holds depends neither on the
order in which cells finish nor on whether a run was interrupted.
"""

import csv
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TypeAlias

from mdpfn.errors import MdpfnError
from mdpfn.storage import write_file
from mdpfn.version import __version__

Value: TypeAlias = str | int | float | None
Row: TypeAlias = dict[str, Value]

DECIMALS = 6


@dataclass(frozen=True)
class Cell:
    """One piece of work: its identity, the settings its numbers depend on, and how to measure it.

    `settings` is anything whose repr spells out the protocol: rows measured under other settings or other
    weights are stale, and only they.
    """

    identity: tuple[Value, ...]  # one value for each of the file's identity columns
    settings: object
    weights_hash: str  # empty where no weights are used
    measure: Callable[[], list[Row]]

    @property
    def stamp(self) -> dict[str, str]:
        """The provenance that valid rows of this cell have."""
        digest = hashlib.sha256(repr(self.settings).encode()).hexdigest()[:8]
        return {"settings": digest, "weights_hash": self.weights_hash}


class ResultsFile:
    """One CSV file: `identity` columns that name a cell, `measured` columns, and where each row comes from."""

    PROVENANCE = ("version", "settings", "weights_hash", "command")

    def __init__(self, path: Path, identity: tuple[str, ...], measured: tuple[str, ...], command: str) -> None:
        self.path, self.identity, self.command = path, identity, command
        self.columns = (*identity, *measured, *self.PROVENANCE)
        self._rows: dict[tuple[str, ...], list[dict[str, str]]] = {}
        if path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                reader = csv.DictReader(file)
                missing = {*identity, *measured}.difference(reader.fieldnames or ())
                if missing:
                    limit = f"it has no column {min(missing)}, so it holds other results, which would be lost"
                    raise MdpfnError("the result file", repr(str(path)), limit, "choose another file")
                for row in reader:
                    known = {column: row.get(column) or "" for column in self.columns}
                    self._rows.setdefault(tuple(known[column] for column in identity), []).append(known)

    def has(self, cell: Cell) -> bool:
        """Whether the rows of this cell are there and valid."""
        rows = self._rows.get(_texts(cell.identity), [])
        return bool(rows) and all(cell.stamp.items() <= row.items() for row in rows)

    def replace(self, cell: Cell, rows: Iterable[Row]) -> None:
        """Put these rows in the place of all that the file has of this cell."""
        origin = {**cell.stamp, "version": __version__, "command": self.command}
        names = dict(zip(self.identity, _texts(cell.identity), strict=True))
        self._rows[_texts(cell.identity)] = [
            {**names, **{column: _text(value) for column, value in row.items()}, **origin} for row in rows
        ]
        self._write()

    def _write(self) -> None:
        text = StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        for identity in sorted(self._rows, key=lambda texts: [_sort_key(text) for text in texts]):
            writer.writerows(self._rows[identity])
        write_file(self.path, text.getvalue().encode())


def _texts(values: tuple[Value, ...]) -> tuple[str, ...]:
    return tuple(_text(value) for value in values)


def _text(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(round(float(value), DECIMALS) + 0.0)  # + 0.0 turns -0.0 into 0.0
    return str(value)


def _sort_key(text: str) -> tuple[int, float, str]:
    """Empty before numbers before words."""
    try:
        return (1, float(text), "") if text else (0, 0.0, "")
    except ValueError:
        return (2, 0.0, text)
