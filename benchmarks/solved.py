"""From which episode on an environment is solved, exactly: the leaderboard looks after 1, 2, 4, … episodes only.

`python -m benchmarks.solved [--json FILE] [--environments …] [--agents …]`: the first episode from which on the mean
score of the seeds stays at 0.95 or above through the last one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro

from mdpfn.bench.environments import ENVIRONMENTS
from mdpfn.bench.protocols.leaderboard import LeaderboardProtocol, scores_after
from mdpfn.bench.protocols.methods import IN_CONTEXT, Method, stored_weights

SOLVED = 0.95


def main(
    json_file: Annotated[Path | None, tyro.conf.arg(name="json")] = None,
    environments: tuple[str, ...] = ("taxi", "gym-frozen-lake-8x8", "cliff-walking"),
    agents: tuple[str, ...] = (IN_CONTEXT, "r-max"),
) -> None:
    protocol = LeaderboardProtocol()
    every = range(1, protocol.episodes + 1)
    found: dict[str, dict[str, int | None]] = {}
    for environment in environments:
        found[environment] = {}
        for agent in agents:
            method = Method(agent, weights=stored_weights("mdpfn-2")) if agent == IN_CONTEXT else Method(agent)
            rows = scores_after(every, protocol, ENVIRONMENTS[environment], method)
            score = np.array([float(row["score"] or 0) for row in rows]).reshape(protocol.seeds, -1).mean(axis=0)
            unsolved = np.flatnonzero(score < SOLVED)
            first = int(unsolved.max(initial=-1)) + 2
            found[environment][agent] = first if first <= protocol.episodes else None
            print(f"{environment:24s} {agent:12s} {found[environment][agent]}", flush=True)
    if json_file:
        json_file.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
