"""The place of a row in its file, for error messages."""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mdpfn.arrays import Ints
from mdpfn.data.columns import listed
from mdpfn.errors import MdpfnError

DAMAGED = (OSError, EOFError, UnicodeDecodeError, zlib.error)  # what reading raises where a file is cut off or no text


@dataclass(frozen=True, eq=False)
class Place:
    """The file of a piece, the names of its columns, and the number of its first row.

    Rows are numbered as they stand in the file: from 1, after the header if there is one. Empty rows are skipped, but
    they count in messages.
    """

    file: str = ""
    first_row: int = 1  # if empty rows did not count
    columns: Mapping[str, Any] = field(default_factory=dict)
    order: Ints | None = None  # where each row was before rows were sorted
    empty: Sequence[int] = ()  # for each empty row of the file, the number of the next row if none of them counted

    def reordered(self, order: Ints) -> Place:
        """The place after rows were sorted in this order."""
        return replace(self, order=order if self.order is None else self.order[order])

    def of(self, row: int, role: str = "") -> str:
        """Row, column and file as text."""
        number = self.first_row + int(row if self.order is None else self.order[row])
        text = f"row {number + bisect_right(self.empty, number)}" + (f" of {self.file!r}" if self.file else "")
        column = ", ".join(map(repr, listed(self.columns.get(role, []))))
        return f"{text}, column {column}" if column else text

    def located(self, error: MdpfnError, row: int, role: str) -> MdpfnError:
        """The same error with the place of the value."""
        return MdpfnError(error.field, f"{error.value} in {self.of(row, role)}", error.limit, error.remedy)


def damaged(path: Path, n_read: int, error: Exception) -> MdpfnError:
    """The error for a file that cannot be read to its end."""
    return MdpfnError("the file", repr(str(path)), f"it could not be read after row {n_read} ({error})", "repair it")


def first(mask: Any) -> int:
    """The first row at which a mask is true."""
    return int(np.argmax(mask))
