"""Reading CSV files in pieces without any other package: bounded memory, a million rows a second.

It is also the fallback where polars fails: its errors name the row, the column and the value.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mdpfn.arrays import Bools
from mdpfn.data.bounded import open_text
from mdpfn.data.columns import FLAGS, Columns, Given, NamedColumn, by_roles, find_columns, listed
from mdpfn.data.csv_lines import fields, whole_rows
from mdpfn.data.place import DAMAGED, Place, damaged, first
from mdpfn.errors import MdpfnError

NAME = "i4"  # the type in which names are read: as numbers, beside i8 for whole numbers and f8 for others
ROWS = 20_000  # in a piece, which then fits into the cache of a core
SNIFFED_ROWS = 1_000  # from which the types of columns are told
LONGEST_FLAG = 8  # characters; longer ones are cut, and no flag when cut either
NO_NUMBER = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")  # what people write where a number is missing
SPELLINGS = (("True", "False"), ("1", "0"), ("true", "false"))  # the most common ones, which are read at once
TRUE, FALSE = ("true", "t", "yes", "y", "1", "1.0"), ("false", "f", "no", "n", "0", "0.0", "")
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+(e[-+]?\d+)?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Layout:
    """The format of a file, found out from its first rows."""

    path: Path
    names: tuple[str, ...]  # of all columns
    columns: Columns
    kinds: Mapping[str, str]  # column -> the type in which it is read
    delimiter: str = ","
    decimal_comma: bool = False

    def of(self, role: str) -> list[str]:
        """The columns of a role."""
        return listed(self.columns[role]) if role in self.columns else []


def sniff(path: Path, given: Given | None) -> Layout:
    """The format of a file.

    The first line names the columns; they are separated by commas, semicolons, tabs or bars. States and actions are
    whole numbers if the first rows hold nothing else, otherwise names. Where columns are not separated by commas,
    numbers may have a decimal comma.
    """
    try:
        with open_text(path) as file:
            header = file.readline().rstrip("\r\n")
            delimiter = max(",;\t|", key=header.count)
            head = whole_rows(file, SNIFFED_ROWS, delimiter, path.name)
    except MdpfnError:  # which is a ValueError, and says more
        raise
    except (*DAMAGED, ValueError) as error:
        limit = f"it could not be read as text ({error})"
        raise MdpfnError("the file", repr(str(path)), limit, "check the path, or save it as UTF-8") from None
    names = tuple(name.strip() for name in next(fields([header], delimiter, path.name), []))
    if len(set(names)) < len(names):
        raise MdpfnError("the header", repr(header[:80]), "every column needs a name of its own", "rename them")
    columns = find_columns(names, given)
    sample = list(fields(head, delimiter, path.name))

    def values(column: str) -> list[str]:
        place = names.index(column)
        return [row[place] for row in sample if place < len(row) and row[place].strip()]

    roles = {column: role for role, several in columns.items() for column in listed(several)}
    numbers = [value for column, role in roles.items() if role not in FLAGS for value in values(column)]
    comma = delimiter != "," and any(map(DECIMAL_COMMA.fullmatch, numbers))
    kinds = {column: _kind(role, values(column), comma) for column, role in roles.items()}
    for pair in zip(listed(columns["state"]), listed(columns.get("next_state", ())), strict=False):
        kind = _wider(*(kinds[column] for column in pair))  # these are of one kind
        kinds |= dict.fromkeys(pair, kind)
    return Layout(path, names, columns, kinds, delimiter, comma)


def alike(layouts: Sequence[Layout]) -> list[Layout]:
    """The layouts of files that are read as one, with the same type for a column in all of them."""
    kinds: dict[str, str] = {}
    for layout in layouts:
        kinds |= {name: _wider(kind, kinds.get(name, kind)) for name, kind in layout.kinds.items()}
    return [replace(layout, kinds={name: kinds[name] for name in layout.kinds}) for layout in layouts]


def read_csv(layout: Layout, names_of: Mapping[str, _Numbers]) -> Iterator[dict[str, Any]]:
    """The rows of a file piece by piece, as role -> values, with the numbers of names from `named_columns`."""
    n_read, empty = 0, array("q")  # rows that are not empty; and those that are, as in a `Place`
    with open_text(layout.path) as file:
        file.readline()
        while True:
            place = Place(layout.path.name, n_read + 1, layout.columns, empty=empty)
            first_row = n_read + len(empty) + 1
            try:
                lines = whole_rows(file, ROWS, layout.delimiter, layout.path.name, first_row)
                if not lines:
                    return
                _note_empty(lines, layout, first_row, empty)
                _check_widths(lines, layout, first_row)
                table = _parsed(lines, layout, names_of)
            except MdpfnError:
                raise
            except DAMAGED as error:
                raise damaged(layout.path, first_row - 1, error) from None
            except (ValueError, IndexError) as error:
                raise _bad_cell(lines, layout, first_row) or _unread(layout.path, error) from None
            n_read += len(table)
            columns = {name: NamedColumn(table[name], names_of[name].names) for name in names_of}
            columns = {name: table[name] for name in layout.kinds} | columns
            piece = by_roles(layout.columns, columns.__getitem__) | {"place": place}
            yield piece | {role: _located_truths(piece[role], role, place) for role in FLAGS if role in piece}


def _note_empty(lines: list[str], layout: Layout, first_row: int, empty: array[int]) -> None:
    """Note the empty rows, which NumPy skips."""
    if any(map(str.isspace, lines)):
        rows = fields(lines, layout.delimiter, layout.path.name, first_row)
        for number, row in enumerate(rows, first_row):
            if not row:
                empty.append(number - len(empty))


def _check_widths(lines: list[str], layout: Layout, first_row: int) -> None:
    """Refuse rows with more fields than the header has: NumPy would read the first of them."""
    n = len(layout.names)
    if max((line.count(layout.delimiter) for line in lines), default=0) < n:
        return
    for number, row in enumerate(fields(lines, layout.delimiter, layout.path.name, first_row), first_row):
        if any(map(str.strip, row[n:])):
            where = f"of {len(row)} fields in {Place(layout.path.name, number).of(0)}"
            limit = f"the header names {n} columns"
            remedy = f"put fields that hold a {layout.delimiter!r} into quotes, or drop the row"
            raise MdpfnError("a row", where, limit, remedy)


def named_columns(layout: Layout) -> dict[str, _Numbers]:
    """The numbers of the names in every column that has some; states and next states share theirs."""
    numbers = {name: _Numbers() for name, kind in layout.kinds.items() if kind == NAME}
    for state, following in zip(layout.of("state"), layout.of("next_state"), strict=False):
        if state in numbers:
            numbers[following] = numbers[state]
    return numbers


def _parsed(lines: list[str], layout: Layout, names: Mapping[str, _Numbers]) -> Any:
    """These lines as a structured array, with numbers in the place of names."""
    if not any(map(str.strip, lines)):
        return np.zeros(0, list(layout.kinds.items()))
    try:
        return _loaded(lines, layout, names, tolerant=layout.decimal_comma)
    except ValueError:
        return _loaded(lines, layout, names, tolerant=True)


def _loaded(lines: list[str], layout: Layout, names: Mapping[str, _Numbers], *, tolerant: bool) -> Any:
    """The lines as a structured array; if tolerant, a missing number is NaN."""
    kinds = dict(layout.kinds)
    converters: dict[int | str, Callable[[str], float]] = {}
    for name, kind in layout.kinds.items():
        if name in names:
            converters[layout.names.index(name)] = names[name].__getitem__
        elif tolerant and kind in ("i8", "f8"):
            kinds[name] = "f8"
            converters[layout.names.index(name)] = lambda text: number(text, layout.decimal_comma)
    return np.loadtxt(
        lines,
        list(kinds.items()),
        delimiter=layout.delimiter,
        usecols=[layout.names.index(name) for name in kinds],
        converters=converters,
        quotechar='"',
        comments=None,
        ndmin=1,
    )


def number(text: str, decimal_comma: bool = False) -> float:
    """A number from text; NaN where it is missing."""
    if text.strip() in NO_NUMBER:
        return np.nan
    if "_" in text:
        raise ValueError(text)
    return float(text.replace(",", ".") if decimal_comma else text)


def _bad_cell(lines: list[str], layout: Layout, first_row: int) -> MdpfnError | None:
    """The error that names the first cell that cannot be read."""
    for row_number, row in enumerate(fields(lines, layout.delimiter, layout.path.name, first_row), first_row):
        if not row:
            continue
        for role, columns in layout.columns.items():
            for name in listed(columns):
                place = layout.names.index(name)
                where = f"in {Place(layout.path.name, row_number).of(0)}, column {name!r}"
                if place >= len(row):
                    return MdpfnError(
                        role, f"not there {where}", f"the row has only {len(row)} columns", "complete or drop it"
                    )
                if layout.kinds[name] in ("i8", "f8") and not _is_number(row[place], layout.decimal_comma):
                    limit = "the column must hold one type throughout, and its first rows hold numbers"
                    return MdpfnError(role, f"{row[place][:40]!r} {where}", limit, "repair or drop that row")
    return None


def _unread(path: Path, error: Exception) -> MdpfnError:
    return MdpfnError("the file", repr(str(path)), f"it could not be read ({error})", "repair it")


class _Numbers(dict[str, int]):
    """Numbers of names in order of appearance, ignoring spaces around them; −1 for a missing one."""

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


def _kind(role: str, sample: list[str], comma: bool) -> str:
    """The type in which a column is read."""
    if role in ("reward", "count"):
        return "f8"
    if role in FLAGS:
        return f"U{LONGEST_FLAG}"
    if sample:
        if all(value.strip().lstrip("-").isdecimal() for value in sample):
            return "i8"
        if all(_is_number(value, comma) for value in sample):
            return "f8"
    return NAME


def _wider(first: str, second: str) -> str:
    """The type that can hold the values of both."""
    kinds = {first, second}
    return NAME if NAME in kinds else "f8" if "f8" in kinds else first


def _is_number(text: str, comma: bool = False) -> bool:
    """Whether `number` can read a text; 1_0 is not a number here, as a grid may name its cells so."""
    try:
        number(text, comma)
    except ValueError:
        return False
    return True


def truths(column: Any) -> Bools:
    """A column of flags as bools."""
    column = np.asarray(column)
    for yes, no in SPELLINGS:
        true: Bools = column == yes
        if (true | (column == no)).all():
            return true
    return np.fromiter(map(_truth, column.tolist()), np.bool_, len(column))


def _located_truths(column: Any, role: str, place: Place) -> Bools:
    """The flags as bools; an error names the row."""
    try:
        return truths(column)
    except MdpfnError as error:
        words = [text.strip().lower() for text in column.tolist()]
        raise place.located(error, first([word not in TRUE + FALSE for word in words]), role) from None


@cache
def _truth(text: str) -> bool:
    word = text.strip().lower()
    if word not in TRUE + FALSE:
        limit = "terminated and truncated must be true or false, 1 or 0"
        raise MdpfnError("a flag", repr(text), limit, "correct the column, or name another one")
    return word in TRUE
