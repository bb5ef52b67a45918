"""Text files with a limit on the length of lines, so that a file without line ends does not fill the memory."""

import gzip
import io
import os
import stat
from pathlib import Path
from typing import IO, Any, TextIO

from mdpfn.errors import MdpfnError
from mdpfn.storage import cannot_read

LONGEST_LINE = 131_072  # bytes, which is also what Python's csv takes for one field
CHUNK = 2**16  # bytes


def check_is_file(path: Path) -> None:
    """Refuse what is not there, and pipes, devices and directories, which may never end."""
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError) as error:
        raise cannot_read(path, error, "check the path") from None
    if not regular:
        raise MdpfnError("the file", repr(str(path)), "it must be a regular file", "write what it holds to a file")


def open_text(path: Path) -> TextIO:
    """A text file, perhaps compressed by gzip, to be read line by line."""
    check_is_file(path)
    file: Any = gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb", buffering=0)  # noqa: SIM115
    return io.TextIOWrapper(io.BufferedReader(_Watched(file, path), CHUNK), encoding="utf-8-sig", newline="")


class _Watched(io.RawIOBase):
    """The bytes of a file, checked in large chunks for lines that are too long, so that reading stays fast."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        super().__init__()
        self.file, self.path = file, path
        self.n_lines, self.n_since = 1, 0  # lines so far, and bytes since the last one ended

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes."""
        data = self.file.read(len(buffer))
        longest = max(map(len, data.split(b"\n"))) if self.n_since + len(data) > LONGEST_LINE else 0
        first, newline, _ = data.partition(b"\n")
        if max(longest, self.n_since + len(first)) > LONGEST_LINE:
            limit = f"line {self.n_lines} or one soon after has more than {LONGEST_LINE:,} characters"
            remedy = "check that lines end, and leave out columns that are not needed"
            raise MdpfnError("the file", repr(str(self.path)), limit, remedy)
        self.n_lines += data.count(b"\n")
        self.n_since = len(data) - data.rfind(b"\n") - 1 if newline else self.n_since + len(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file as well."""
        self.file.close()
        super().close()
