"""Score against training compute: the snapshots of a run, from its first steps to its end."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from mdpfn.errors import MdpfnError
from mdpfn.protocols import convergence
from mdpfn.protocols.depth import PRIOR, DepthProtocol, measure_prior
from mdpfn.protocols.methods import IN_CONTEXT, Method, StoredPlanner, stored_planner
from mdpfn.protocols.parallel import measure_cells
from mdpfn.protocols.results import Cell, ResultsFile, Row
from mdpfn.storage import DESCRIPTION

IDENTITY = ("environment", "mdps")
MEASURED = ("seed", "score", "episodes")


@dataclass(frozen=True)
class ComputeProtocol:
    """What is measured of each snapshot, at the depth the paper evaluates at."""

    depth: int = 24
    prior: DepthProtocol = field(default_factory=DepthProtocol)
    online: convergence.ConvergenceProtocol = field(
        default_factory=lambda: convergence.ConvergenceProtocol(max_episodes=150)
    )


def run(protocol: ComputeProtocol, snapshots: Path, path: Path, *, command: str, workers: int) -> None:
    """Measure every model directory below `snapshots` into the CSV file at `path`."""
    directories = sorted(d for d in snapshots.glob("*") if (d / DESCRIPTION).is_file())
    if not directories:
        limit = "it must hold the snapshots of a training run"
        raise MdpfnError("the directory", repr(str(snapshots)), limit, "train one first, with mdpfn train")
    cells = [
        Cell(
            identity=(environment, mdps_seen(directory)),
            settings=protocol,
            weights_hash=planner.weights_hash,
            measure=partial(measure, protocol, environment, planner),
        )
        for directory in directories
        for planner in [stored_planner(str(directory))]
        for environment in (PRIOR, *protocol.online.environments)
    ]
    measure_cells(cells, ResultsFile(path, IDENTITY, MEASURED, command), workers=workers, title="compute")


def mdps_seen(model: Path) -> int:
    """How many MDPs a model was trained on, from its card."""
    card = json.loads((model / DESCRIPTION).read_text(encoding="utf-8"))
    return int(card["training"]["mdps"])


def measure(protocol: ComputeProtocol, environment: str, planner: StoredPlanner) -> list[Row]:
    """Scores on held-out MDPs, or episodes to convergence on a benchmark (never: as many as it had)."""
    if environment == PRIOR:
        return measure_prior(protocol.prior, environment, planner, protocol.depth)
    options = {"acting_temperature": protocol.online.acting_temperature}
    rows = convergence.measure(protocol.online, environment, Method(IN_CONTEXT, options, planner, protocol.depth))
    return [{**row, "episodes": row["episodes"] or protocol.online.max_episodes} for row in rows]
