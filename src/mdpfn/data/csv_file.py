"""CSV files, read in pieces: millions of rows in bounded memory, a million a second and more."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from mdpfn.arrays import Bools
from mdpfn.data.bounded import open_text
from mdpfn.data.columns import OPTIONAL, NamedColumn, find_columns
from mdpfn.errors import MdpfnError

NAME = "i4"  # the type in which names are read: as numbers, beside i8 for whole numbers and f8 for others
ROWS = 20_000  # in a piece, which then fits into the cache of a core
SNIFFED_ROWS = 1_000  # from which the types of columns are told
LONGEST_FLAG = 8  # characters; longer ones are cut, and no flag when cut either
SPELLINGS = (("True", "False"), ("1", "0"), ("true", "false"))  # the most common ones, which are read at once
TRUE, FALSE = ("true", "t", "yes", "y", "1", "1.0"), ("false", "f", "no", "n", "0", "0.0", "")


def read_csv(path: Path, given: Mapping[str, str] | None) -> tuple[dict[str, str], Iterator[dict[str, Any]]]:
    """role -> column name, and the rows piece by piece as role -> values.

    The first line names the columns; they are separated by commas, semicolons, tabs or bars. States and actions are
    whole numbers if the first rows hold nothing else, otherwise names. The next state may be empty.
    """
    try:
        with open_text(path) as file:
            header = file.readline().rstrip("\r\n")
            head = list(islice(file, SNIFFED_ROWS))
    except FileNotFoundError:
        raise MdpfnError("the file", repr(str(path)), "there is no such file", "check the path") from None
    except MdpfnError:  # which is a ValueError, and says more
        raise
    except (OSError, ValueError, EOFError, zlib.error) as error:
        limit = f"it could not be read as text ({error})"
        raise MdpfnError("the file", repr(str(path)), limit, "check the path and the encoding") from None
    delimiter = max(",;\t|", key=header.count)
    names = [name.strip() for name in next(_fields(path, [header], delimiter), [])]
    if len(set(names)) < len(names):
        raise MdpfnError("the header", repr(header[:80]), "every column needs a name of its own", "rename them")
    columns = find_columns(names, given)
    sample = list(_fields(path, head, delimiter))
    places = {role: names.index(name) for role, name in columns.items()}
    samples = {role: [row[place] for row in sample if place < len(row)] for role, place in places.items()}
    samples["state"] = samples["next_state"] = samples["state"] + samples["next_state"]  # these are of one kind
    kinds = {role: _kind(role, [value for value in values if value.strip()]) for role, values in samples.items()}
    if kinds["next_state"] == "i8" and not all(map(str.strip, samples["next_state"])):
        kinds["next_state"] = "f8"  # in which a missing number is NaN
    states, actions = _Numbers(), _Numbers()
    names_of = {"state": states, "action": actions, "next_state": states}
    names_of = {role: numbers for role, numbers in names_of.items() if kinds[role] == NAME}

    def pieces() -> Iterator[dict[str, Any]]:
        n_read = 1
        with open_text(path) as file:
            file.readline()
            while True:
                try:
                    lines = list(islice(file, ROWS))
                    table = _parsed(lines, kinds, places, names_of, delimiter)
                except MdpfnError:
                    raise
                except (ValueError, IndexError, OSError, EOFError, zlib.error) as error:
                    comma = ", and numbers a decimal point" if delimiter == ";" else ""
                    limit = f"every column needs one type throughout{comma} ({error}, counted from line {n_read + 1})"
                    raise MdpfnError("the file", repr(str(path)), limit, "repair or drop that row") from None
                if not lines:
                    return
                n_read += len(lines)
                piece = {role: _truths(table[role]) if role in OPTIONAL else table[role] for role in kinds}
                yield piece | {role: NamedColumn(table[role], numbers.names) for role, numbers in names_of.items()}

    return columns, pieces()


def _fields(path: Path, lines: list[str], delimiter: str) -> Iterator[list[str]]:
    """The fields of every row of these lines."""
    try:
        yield from csv.reader(lines, delimiter=delimiter)
    except csv.Error as error:
        limit = f"its first {SNIFFED_ROWS} rows must be rows of a table ({error})"
        raise MdpfnError("the file", repr(str(path)), limit, "check its quotes and line ends") from None


def _parsed(
    lines: list[str], kinds: dict[str, str], places: dict[str, int], names: Mapping[str, _Numbers], delimiter: str
) -> Any:
    """These lines as a structured array, with numbers in the place of names."""
    types = list(kinds.items())
    if not any(map(str.strip, lines)):
        return np.zeros(0, types)
    numbers: dict[int | str, Callable[[str], float]] = {places[role]: names[role].__getitem__ for role in names}
    if kinds["next_state"] == "f8":
        numbers[places["next_state"]] = lambda text: float(text) if text.strip() else np.nan
    return np.loadtxt(
        lines,
        types,
        delimiter=delimiter,
        usecols=tuple(places.values()),
        converters=numbers,
        quotechar='"',
        comments=None,
        ndmin=1,
    )


class _Numbers(dict[str, int]):
    """Numbers of names in the order of appearance, however many spaces are around them; −1 of a missing one."""

    def __init__(self) -> None:
        super().__init__({"": -1})
        self.names: list[str] = []

    def __missing__(self, text: str) -> int:
        name = text.strip()
        if name not in self:
            self[name] = len(self.names)
            self.names.append(name)
        self[text] = number = self[name]
        return number


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
    return NAME


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
