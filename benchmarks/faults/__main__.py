"""Try every attack: `python -m benchmarks.faults [--json FILE] [--full]`.

Two minutes, or with `--full` about an hour. Prints tries and failures of each; a try fails unless the answer is
right or one clear refusal, soon, after which everything is as it was.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import tyro

import mdpfn
from benchmarks.faults import ATTACKS

BOUNDED = (1_500, 400, 200, 1_500, 60, 300, 16, 6, 30)
FULL = (20_000, 5_000, 400, 10_000, 400, 3_000, 300, 60, 400)
MEMORY = 4 * 2**30  # bytes beyond what is in use when it begins: what asks for more fails


def main(
    json_file: Annotated[Path | None, tyro.conf.arg(name="json")] = None, full: bool = False, seed: int = 0
) -> None:
    limit_memory()
    rows, began = {}, time.monotonic()
    for (name, attack), tries in zip(ATTACKS.items(), FULL if full else BOUNDED, strict=True):
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            tally = attack(Path(directory), random.Random(seed), tries)
        seconds = time.monotonic() - started
        rows[name] = {"tries": tally.tries, "failures": tally.failures, "seconds": round(seconds, 1)}
        show(name, tally.tries, tally.failures, seconds)
        for example in tally.examples:
            print(f"    {example}", flush=True)
    total = {key: sum(row[key] for row in rows.values()) for key in ("tries", "failures")}
    show("in total", total["tries"], total["failures"], time.monotonic() - began)
    if json_file:
        kind = "full" if full else "bounded"
        record = {"kind": kind, "version": mdpfn.__version__, **total, "attacks": rows}
        json_file.write_text(json.dumps(record, indent=2) + "\n")
    sys.exit(1 if total["failures"] else 0)


def show(name: str, tries: int, failures: int, seconds: float) -> None:
    print(f"{name:36s} {tries:8,d} tries {failures:6,d} failures {seconds:8.1f} s", flush=True)


def limit_memory() -> None:
    """Let an attempt to take all memory fail here and not elsewhere."""
    status = Path("/proc/self/statm")
    if status.exists():
        used = int(status.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


if __name__ == "__main__":
    tyro.cli(main)
