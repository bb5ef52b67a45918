"""How fast a log is read: CSV files with names, beside polars that reads and groups the same file.

`python -m benchmarks.logs [--json FILE] [--rows N] [--repeats N]`. Both are run by turns in the same process, in
seconds by the clock and of all cores; the careful reader, which needs no other package, reads a tenth of the rows.
"""

from __future__ import annotations

import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import tyro

from mdpfn.data import files
from mdpfn.data.log import read_log
from mdpfn.data.options import LogOptions
from mdpfn.weights.limits import Limits

STATES, ACTIONS = 40, ("mail", "call", "wait")


def main(
    json_file: Annotated[Path | None, tyro.conf.arg(name="json")] = None, rows: int = 10_000_000, repeats: int = 3
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, part = Path(folder) / "log.csv", Path(folder) / "part.csv"
        write_log(path, rows)
        write_log(part, rows // 10)
        polars, ours = by_turns(repeats, lambda: by_polars(path), lambda: by_mdpfn(path))
        careful = by_turns(1, lambda: by_mdpfn(part, polars=False))[0]
        figures = {
            "rows": rows,
            "polars_seconds": polars[0],
            "mdpfn_seconds": ours[0],
            "ratio": ours[0] / polars[0],
            "polars_cpu_seconds": polars[1],
            "mdpfn_cpu_seconds": ours[1],
            "cpu_ratio": ours[1] / polars[1],
            "rows_per_second": rows / ours[0],
            "careful_rows_per_cpu_second": rows // 10 / careful[1],
        }
    for name, value in figures.items():
        print(f"{name:32} {value:14,.2f}")
    if json_file is not None:
        json_file.write_text(json.dumps({name: round(value, 3) for name, value in figures.items()}, indent=1) + "\n")


def write_log(path: Path, rows: int) -> None:
    """Names of states and actions, continuous rewards, a tenth of the rows at the end of an episode."""
    rng = np.random.default_rng(0)
    names = np.array([f"state {i}" for i in range(STATES)])
    state = rng.integers(STATES, size=rows)
    frame = pl.DataFrame(
        {
            "state": names[state],
            "action": np.array(ACTIONS)[rng.integers(len(ACTIONS), size=rows)],
            "reward": rng.normal(size=rows).round(4),
            "next_state": names[(state + rng.integers(1, 5, size=rows)) % STATES],
            "terminated": rng.random(rows) < 0.1,
        }
    )
    frame.write_csv(path)


def by_polars(path: Path) -> int:
    """What a user of polars would write."""
    reward = pl.col("reward")
    sums = reward.sum().alias("sum"), (reward * reward).sum().alias("squares"), reward.min(), reward.max().alias("max")
    keys = "state", "action", "next_state", "terminated"
    return len(pl.scan_csv(path).group_by(*keys).agg(pl.len(), *sums).collect(engine="streaming"))


def by_mdpfn(path: Path, *, polars: bool = True) -> int:
    """What `Agent.fit` does before it plans."""
    before = files.has_polars
    files.has_polars = (lambda: polars) if not polars else before  # type: ignore[assignment]
    try:
        logged = read_log(path, (None, None), Limits(), LogOptions())
    finally:
        files.has_polars = before
    return logged.statistics.n_visited  # type: ignore[union-attr]


def by_turns(repeats: int, *runs: Callable[[], object]) -> list[tuple[float, float]]:
    """The least time of each by the clock and of all cores; run in turn, so that a busy machine hurts all."""
    times: list[list[tuple[float, float]]] = [[] for _ in runs]
    for _ in range(repeats):
        for each, run in zip(times, runs, strict=True):
            clock, cores = time.perf_counter(), cpu_seconds()
            run()
            each.append((time.perf_counter() - clock, cpu_seconds() - cores))
    return [(min(t for t, _ in each), min(c for _, c in each)) for each in times]


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    tyro.cli(main)
