"""Train while processes are killed again and again: python kill_repeatedly.py CONFIG DIRECTORY KILLS

DIRECTORY/whole is a run left alone. Runs DIRECTORY/random-0, -1, … are killed after random times and resumed until
they end, with KILLS kills in all. DIRECTORY/half was killed with its second checkpoint all but in place; of its copies,
DIRECTORY/operation-n is resumed, killed right before its n-th operation on a file and resumed again, for all n there
are. Prints as JSON how many kills there were and how many left unfinished files behind.

Children are forked from this process, which has everything imported already, so that they start at once.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mdpfn.training.config import TrainingConfig, load_config
from mdpfn.training.loop import train

FILE_OPERATIONS = {"open", "os.mkdir", "os.rename", "os.remove", "os.truncate"}
LONGEST_LIFE = 0.5  # seconds: on a busy machine many a process is killed before it achieves anything
MODULES = "modules.json"


def main() -> None:
    config, directory, n_kills = load_config(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(0)

    assert wait_for(start(config, directory / "whole", after=partial(note_modules, directory)))
    for module in json.loads((directory / MODULES).read_text()):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    began = time.monotonic()
    assert wait_for(start(config, directory / "timed"))
    seconds = time.monotonic() - began

    unfinished = {"random": 0, "operation": 0}
    kills = 0
    runs = (directory / f"random-{number}" for number in itertools.count())
    run = next(runs)
    while kills < n_kills:
        child = start(config, run)
        time.sleep(rng.uniform(0, min(seconds, LONGEST_LIFE)))
        os.kill(child, signal.SIGKILL)
        if wait_for(child):
            run = next(runs)
        else:
            kills += 1
            unfinished["random"] += left_unfinished(run)
    assert wait_for(start(config, run))

    half = directory / "half"
    assert not wait_for(start(config, half, before=partial(die_before, {"os.rename"}, 1, half)))
    for operation in itertools.count():
        run = directory / f"operation-{operation}"
        shutil.copytree(half, run)
        if wait_for(start(config, run, before=partial(die_before, FILE_OPERATIONS, operation, run))):
            break
        unfinished["operation"] += left_unfinished(run)
        assert wait_for(start(config, run))
    print(json.dumps({"random": kills, "operation": operation, "unfinished": unfinished}))


def nothing() -> None:
    pass


def start(
    config: TrainingConfig, run: Path, before: Callable[[], None] = nothing, after: Callable[[], None] = nothing
) -> int:
    """Id of a new process that trains in `run`."""
    child = os.fork()
    if child:
        return child
    try:
        before()
        with contextlib.redirect_stdout(io.StringIO()):
            train(config, run, resume="auto")
        after()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def wait_for(child: int) -> bool:
    """Whether a process came to its end; False if it was killed, an exception if anything else happened to it."""
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (0, -signal.SIGKILL):
        raise RuntimeError(f"a run could not be resumed: exit code {status}")
    return status == 0


def left_unfinished(run: Path) -> bool:
    return any(run.glob("**/.*.unfinished"))


def die_before(operations: set[str], number: int, run: Path) -> None:
    """Have this process killed right before the operation of this number, of these kinds, on files of the run."""
    done = itertools.count()

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        if event not in operations:
            return
        if str(arguments[0]).startswith(str(run)) and next(done) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(audit)


def note_modules(directory: Path) -> None:
    (directory / MODULES).write_text(json.dumps(list(sys.modules)))


if __name__ == "__main__":
    main()
