"""CSV files, read in pieces: millions of rows in bounded memory, a million a second and more."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from mdpfn.arrays import Bools
from mdpfn.errors import MdpfnError
from mdpfn.interface.columns import OPTIONAL, find_columns

NAMED = ("state", "action", "next_state")  # the columns that may hold names
ROWS = 20_000  # in a piece, which then fits into the cache of a core
SNIFFED_ROWS = 1_000  # from which the types of columns are told
LONGEST_NAME = 64  # characters of a column of names that are read as text of fixed width, twice as fast as objects
LONGEST_FLAG = 8  # characters; longer ones are cut, and no flag when cut either
SPELLINGS = (("True", "False"), ("1", "0"), ("true", "false"))  # the most common ones, which are read at once
TRUE, FALSE = ("true", "t", "yes", "1", "1.0"), ("false", "f", "no", "0", "0.0", "")


def read_csv(path: Path, given: Mapping[str, str] | None) -> tuple[dict[str, str], Iterator[dict[str, Any]]]:
    """role -> column name, and the rows piece by piece as role -> values.

    The first line names the columns; they are separated by commas, semicolons or tabs. States and actions are
    whole numbers if the first rows hold nothing else, otherwise names.
    """
    try:
        with _opened(path) as file:
            header = file.readline().rstrip("\r\n")
            head = list(islice(file, SNIFFED_ROWS))
    except (OSError, UnicodeDecodeError, EOFError, zlib.error) as error:
        limit = f"it could not be read as text ({error})"
        raise MdpfnError("the file", repr(str(path)), limit, "check the path and the encoding") from None
    delimiter = max(",;\t", key=header.count)
    names = [name.strip() for name in next(csv.reader([header], delimiter=delimiter), [])]
    if len(set(names)) < len(names):
        raise MdpfnError("the header", repr(header[:80]), "every column needs a name of its own", "rename them")
    columns = find_columns(names, given)
    sample = list(csv.reader(head, delimiter=delimiter))
    places = {role: names.index(name) for role, name in columns.items()}
    samples = {role: [row[place] for row in sample if place < len(row)] for role, place in places.items()}
    samples["state"] = samples["next_state"] = samples["state"] + samples["next_state"]  # these are of one kind
    kinds = {role: _kind(role, values) for role, values in samples.items()}
    padded = any(value != value.strip() for role in NAMED for value in samples[role])

    def pieces() -> Iterator[dict[str, Any]]:
        n_read = 1
        with _opened(path) as file:
            file.readline()
            while True:
                try:
                    lines = list(islice(file, ROWS))
                    table = _parsed(lines, kinds, tuple(places.values()), delimiter)
                except (ValueError, IndexError, OSError, EOFError, zlib.error) as error:
                    limit = f"every column needs one type throughout ({error}, counted from line {n_read + 1})"
                    raise MdpfnError("the file", repr(str(path)), limit, "repair or drop that row") from None
                if not lines:
                    return
                n_read += len(lines)
                piece = {role: _truths(table[role]) if role in OPTIONAL else table[role] for role in kinds}
                yield piece | {role: _names(role, piece[role], padded) for role in NAMED}

    return columns, pieces()


def _parsed(lines: list[str], kinds: dict[str, str], places: tuple[int, ...], delimiter: str) -> Any:
    """These lines as a structured array."""
    types = list(kinds.items())
    if not any(map(str.strip, lines)):
        return np.zeros(0, types)
    table = np.loadtxt(lines, types, delimiter=delimiter, usecols=places, quotechar='"', comments=None, ndmin=1)
    cut = [role for role, kind in types if role not in OPTIONAL and kind.startswith("U") and _is_full(table[role])]
    return _parsed(lines, {**kinds, **dict.fromkeys(cut, "O")}, places, delimiter) if cut else table


def _is_full(column: np.ndarray[Any, Any]) -> bool:
    """Whether some text takes all the width there is, so that it may have been cut."""
    last = column.getfield("U1", column.itemsize - np.dtype("U1").itemsize)
    return bool((last != "").any())


def _names(role: str, column: np.ndarray[Any, Any], padded: bool) -> np.ndarray[Any, Any]:
    """Names without the spaces around them; numbers as they are. No name may be missing."""
    if column.dtype.kind not in "OU" or len(column) == 0:
        return column
    if column.dtype.kind == "O":
        column = np.array([text.strip() for text in column], dtype=object)
        missing = (column == "").any()
    else:
        if padded or (column.getfield("U1") == " ").any():
            column = np.char.strip(column)
        missing = (column.getfield("U1") == "").any()
    if missing:
        raise MdpfnError(f"a {role}", "empty", "every row needs one", "drop or repair that row")
    return column


def _kind(role: str, sample: list[str]) -> str:
    """The type in which a column is read."""
    if role == "reward":
        return "f8"
    if role in OPTIONAL:
        return f"U{LONGEST_FLAG}"
    if sample:
        if all(value.strip().lstrip("-").isdecimal() for value in sample):
            return "i8"
        if all(map(_is_number, sample)):
            return "f8"
        width = max(map(len, sample)) + 4  # names to come may be longer than those in the sample
        if width <= LONGEST_NAME:
            return f"U{width}"
    return "O"


def _is_number(text: str) -> bool:
    if "_" in text:  # Python reads 1_0 as ten; a grid may call its cells so
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


def _truths(column: np.ndarray[Any, Any]) -> Bools:
    """Flags as truth values."""
    for yes, no in SPELLINGS:
        true: Bools = column == yes
        if (true | (column == no)).all():
            return true
    return np.fromiter(map(_truth, column.tolist()), np.bool_, len(column))


@cache
def _truth(text: str) -> bool:
    word = text.strip().lower()
    if word not in TRUE + FALSE:
        limit = "terminated and truncated must be true or false, 1 or 0"
        raise MdpfnError("a flag", repr(text), limit, "correct the column, or name another one")
    return word in TRUE


def _opened(path: Path) -> TextIO:
    how: dict[str, Any] = {"mode": "rt", "encoding": "utf-8-sig", "newline": ""}
    file: TextIO = gzip.open(path, **how) if path.suffix.lower() == ".gz" else path.open(**how)  # noqa: SIM115
    return file
