"""The lines of a CSV file, and the fields in them: within quotes a row may go on over several lines."""

import csv
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from mdpfn.data.place import Place
from mdpfn.errors import MdpfnError


def fields(lines: Iterable[str], delimiter: str, file: str, first_row: int = 1) -> Iterator[list[str]]:
    """The fields of every row of these lines, none for an empty row; the file and the first row are for errors."""
    row_number = first_row
    try:
        for row in csv.reader(lines, delimiter=delimiter):
            yield row
            row_number += 1
    except csv.Error as error:
        value = f"unreadable in {Place(file, row_number).of(0)}"
        limit = f"its quotes must be closed and its line must end like others ({error})"
        raise MdpfnError("a row", value, limit, "check its quotes and line ends") from None


def whole_rows(lines: Iterator[str], n: int, delimiter: str, file: str, first_row: int = 1) -> list[str]:
    """The next n lines, and those after them on which the last row goes on.

    Python's csv takes so many characters for one field that a quote that is never closed is soon refused.
    """
    head = list(islice(lines, n))
    if not any('"' in line for line in head):
        return head
    taken: list[str] = []

    def noted() -> Iterator[str]:
        for line in chain(head, lines):
            taken.append(line)
            yield line
        raise csv.Error("the file ends within quotes")

    for _ in fields(noted(), delimiter, file, first_row):
        if len(taken) >= len(head):
            break
    return taken
