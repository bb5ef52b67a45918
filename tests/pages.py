"""Real servers of this package in processes of their own, and the system's Chromium to look at them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium")


class Served:
    """A server and where it is."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process, self.address = process, address

    def stop(self, how: int = signal.SIGINT) -> int:
        self.process.send_signal(how)
        return self.process.wait(timeout=20)


@contextmanager
def serving(*words: str) -> Iterator[Served]:
    """`mdpfn …` in a process of its own, from when it says where it is until it has ended."""
    command = [sys.executable, "-m", "mdpfn", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\S+", process.stdout.readline())
        assert found, f"mdpfn {' '.join(words)} did not start"
        yield Served(process, found.group())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
