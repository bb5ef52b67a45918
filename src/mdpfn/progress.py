"""Progress of a long run on the standard error: one line that is rewritten in a terminal, plain lines in a pipe."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

PATIENCE = 2.0  # seconds that pass before anything is said
REWRITTEN_EVERY, LINE_EVERY = 0.1, 10.0  # seconds, in a terminal and in a pipe


def somebody_watches() -> bool:
    """Whether the standard error is a terminal, or this is a notebook."""
    shell_of = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    return sys.stderr.isatty() or hasattr(shell_of(), "kernel")


class Progress:
    """Reports how much of a total is done and the time left, once a run has lasted two seconds."""

    def __init__(
        self,
        what: str,
        total: int,
        *,
        done: int = 0,  # before
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.what, self.total, self.clock, self._done_before = what, total, clock, done
        self.stream = sys.stderr if stream is None else stream
        self.rewrites = self.stream.isatty() or _is_notebook_stream(self.stream)
        self._begun = clock()
        self._said = self._begun + PATIENCE - (REWRITTEN_EVERY if self.rewrites else LINE_EVERY)
        self._width = 0

    def update(self, done: int, note: str = "") -> None:
        """Report how much is done, unless the last report was just now."""
        now = self.clock()
        if now - self._said < (REWRITTEN_EVERY if self.rewrites else LINE_EVERY):
            return
        self._said = now
        left = (now - self._begun) * max(self.total - done, 0) / max(done - self._done_before, 1)
        self._write(" · ".join(filter(None, [f"{self.what} {done} of {self.total}", note, f"{duration(left)} left"])))

    def _write(self, line: str) -> None:
        if self.rewrites:
            self.stream.write("\r" + line.ljust(self._width))
            self._width = len(line)
        else:
            self.stream.write(line + "\n")
        self.stream.flush()

    def close(self) -> None:
        """Clear the line."""
        if self._width:
            self.stream.write("\r" + " " * self._width + "\r")
            self.stream.flush()
            self._width = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@contextmanager
def waiting(what: str, stream: TextIO | None = None) -> Iterator[None]:
    """Report what is being done and for how long, where nobody knows how much there is to do."""
    line, done = Progress(what, 0, stream=stream), threading.Event()

    def report() -> None:
        begun, pause = line.clock(), PATIENCE
        while not done.wait(pause):
            line._write(f"{what} · {duration(line.clock() - begun)}")
            pause = 1.0 if line.rewrites else LINE_EVERY

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        done.set()
        reporter.join()
        line.close()


def _is_notebook_stream(stream: TextIO) -> bool:
    return type(stream).__module__.startswith("ipykernel")


def duration(seconds: float) -> str:
    """A number of seconds as text: in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
