"""How often the true Q* lies below the quantiles that a network states for it, on worlds it never saw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from mdpfn.arrays import Bools, Floats, sums_by
from mdpfn.errors import MdpfnError
from mdpfn.prior.world import sample_world
from mdpfn.protocols.methods import StoredPlanner
from mdpfn.protocols.parallel import entropy, measure_cells
from mdpfn.protocols.results import Cell, ResultsFile, Row
from mdpfn.training.lived_validation import held_out_meetings
from mdpfn.training.lives import Life, LifeConfig

IDENTITY = ("weights", "seed")
MEASURED = ("group", "level", "worlds", "observed")
ALL, VISITED, UNVISITED = "all pairs", "visited pairs", "pairs never visited"
TEMPERATURE = 1.0  # of the policies that training would aim at, which nobody reads here


@dataclass(frozen=True)
class CalibrationProtocol:
    """How many worlds, how data is gathered in them, and where the amount of data is divided into groups."""

    seeds: int = 16
    worlds_per_seed: int = 512
    lives: LifeConfig = field(default_factory=LifeConfig)
    visits: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0)  # mean visits per pair


def run(protocol: CalibrationProtocol, planner: StoredPlanner, path: Path, *, command: str, workers: int) -> None:
    """Measure one model into the CSV file at `path`."""
    if not planner.levels:
        limit = "its network states no quantiles of Q*"
        raise MdpfnError("weights", repr(planner.name), limit, "choose a model that does")
    cells = [
        Cell(
            identity=(planner.name, seed),
            settings=(protocol, planner.world),
            weights_hash=planner.weights_hash,
            measure=partial(measure, protocol, planner, seed),
        )
        for seed in range(protocol.seeds)
    ]
    measure_cells(cells, ResultsFile(path, IDENTITY, MEASURED, command), workers=workers, title="calibration")


def measure(protocol: CalibrationProtocol, planner: StoredPlanner, seed: int) -> list[Row]:
    """One row per group of pairs and level: the share of pairs whose Q* is at most the stated quantile.

    Shares are taken in each world, over its pairs of the group, and averaged over the worlds that have such pairs:
    every world has the same weight, whatever its size. Data is gathered as in training, except that nobody asks the
    network what to do. Terminal states, in which there is nothing to earn, do not count.
    """
    sampler = partial(sample_world, config=planner.world)
    seeds = entropy("calibration", seed)
    meetings = held_out_meetings(protocol.lives, sampler, seeds, protocol.worlds_per_seed, TEMPERATURE)
    plan = planner.load(None)
    shares: dict[str, list[Floats]] = {name: [] for name in (ALL, VISITED, UNVISITED, *amounts(protocol.visits))}
    for meeting in meetings:
        outlooks = plan(meeting.z, meeting.crowd.told())
        for life, outlook in zip(meeting.crowd.lives, outlooks, strict=True):
            assert outlook.q_quantiles is not None
            below = life.solution.q[:, :, None] <= outlook.q_quantiles
            for name, members in groups(life, protocol.visits):
                if members.any():
                    shares[name].append(below[members].mean(axis=0))
    return [
        {"group": name, "level": level, "worlds": len(of_worlds), "observed": float(share)}
        for name, of_worlds in shares.items()
        if of_worlds
        for level, share in zip(planner.levels, np.mean(of_worlds, axis=0), strict=True)
    ]


def groups(life: Life, edges: tuple[float, ...]) -> Iterator[tuple[str, Bools]]:
    """Names of groups and which pairs (S, A) of this life are in them: by visits of the pair, and of all on average."""
    p, shape = life.mdp.transition, life.mdp.reward.shape
    row = np.repeat(np.arange(p.shape[0]), np.diff(p.indptr))
    n_visits = sums_by(row, life.count, p.shape[0]).reshape(shape)
    goes_on = np.broadcast_to(~life.mdp.terminal[:, None], shape)
    yield ALL, goes_on
    yield VISITED, goes_on & (n_visits > 0)
    yield UNVISITED, goes_on & (n_visits == 0)
    yield amounts(edges)[np.searchsorted(edges, n_visits[goes_on].mean(), side="right")], goes_on


def amounts(edges: tuple[float, ...]) -> list[str]:
    """Names of the ranges of mean visits per pair between these `edges`, below and above them."""
    between = [f"visits per pair {low:g}–{high:g}" for low, high in pairwise(edges)]
    return [f"visits per pair < {edges[0]:g}", *between, f"visits per pair ≥ {edges[-1]:g}"]
