"""Measuring cells in worker processes, into a result file.

Every cell runs on one thread of a process of its own pool, however many workers there are, and draws its
random numbers from generators named after it: the number of workers changes how long it takes, nothing else.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import TypeVar
from zlib import crc32

import numpy as np

from mdpfn.bench.protocols.results import Cell, ResultsFile
from mdpfn.progress import Progress

T = TypeVar("T")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def entropy(*names: str | int) -> list[int]:
    """The seed that belongs to these names, in any process and on any machine."""
    return [crc32(str(name).encode()) for name in names]


def generator(*names: str | int) -> np.random.Generator:
    """The random generator that belongs to these names."""
    return np.random.default_rng(entropy(*names))


def seed_of(*names: str | int) -> int:
    """The seed that belongs to these names, as one number."""
    return int(np.random.SeedSequence(entropy(*names)).generate_state(1)[0])


def measure_cells(cells: Sequence[Cell], results: ResultsFile, *, workers: int) -> None:
    """Measure the cells whose rows are missing or stale; every finished cell is on disk at once."""
    missing = [cell for cell in cells if not results.has(cell)]
    if not missing:
        return
    title, done = results.path.stem.replace("_", " "), len(cells) - len(missing)
    with Progress(title, len(cells), done=done) as progress:
        for number, rows in in_processes([cell.measure for cell in missing], workers=workers):
            results.replace(missing[number], rows)
            done += 1
            progress.update(done)


def in_processes(tasks: Sequence[Callable[[], T]], *, workers: int) -> Iterator[tuple[int, T]]:
    """The number and the result of every task, as they are finished."""
    with _pool(min(workers, len(tasks))) as pool:
        with _environment(ONE_THREAD):  # workers start as work is submitted and inherit it
            running = {pool.submit(task): number for number, task in enumerate(tasks)}
        for finished in as_completed(running):
            yield running[finished], finished.result()


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of worker processes; pending work is cancelled when the block is left."""
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start_worker)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker() -> None:
    """Let a worker end with its parent: on Ctrl-C, and when the parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
