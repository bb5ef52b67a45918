"""Calibration: how often Q* lies below the quantiles that a network predicts, on held-out worlds."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np

from mdpfn.arrays import Bools, Floats, entry_rows, sums_by
from mdpfn.bench.protocols.methods import StoredWeights
from mdpfn.bench.protocols.parallel import entropy
from mdpfn.bench.protocols.results import Cell, Row
from mdpfn.errors import MdpfnError
from mdpfn.network.planning import planner_outputs
from mdpfn.prior.world import sample_world
from mdpfn.training.held_out import held_out_batches
from mdpfn.training.tasks import Task, TaskConfig

IDENTITY = ("weights", "seed")
MEASURED = ("group", "level", "worlds", "observed")
ALL, VISITED, UNVISITED = "all pairs", "visited pairs", "pairs never visited"
TEMPERATURE = 1.0  # of the policies that training would aim at, which nobody reads here


@dataclass(frozen=True)
class CalibrationProtocol:
    """How many worlds, how data is gathered in them, and where the amount of data is divided into groups."""

    seeds: int = 16
    worlds_per_seed: int = 512
    tasks: TaskConfig = field(default_factory=TaskConfig)
    visits: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0)  # mean visits per pair


def cells(protocol: CalibrationProtocol, weights: StoredWeights) -> list[Cell]:
    """Every seed of one model."""
    if not weights.load().network.config.quantiles:
        limit = "its network states no quantiles of Q*"
        raise MdpfnError("weights", repr(weights.name), limit, "choose a model that does")
    return [
        Cell(
            identity=(weights.name, seed),
            settings=(protocol, weights.world),
            weights_hash=weights.weights_hash,
            measure=partial(measure, protocol, weights, seed),
        )
        for seed in range(protocol.seeds)
    ]


def measure(protocol: CalibrationProtocol, weights: StoredWeights, seed: int) -> list[Row]:
    """One row per group of pairs and level: the share of pairs whose Q* is at most the stated quantile.

    Shares are taken in each world, over its pairs of the group, and averaged over the worlds that have such pairs:
    every world has the same weight, whatever its size. Data is gathered as in training, except that nobody asks the
    network what to do. Terminal states, in which there is nothing to earn, do not count.
    """
    sampler = partial(sample_world, config=weights.world)
    seeds = entropy("calibration", seed)
    training_batches = held_out_batches(protocol.tasks, sampler, seeds, protocol.worlds_per_seed, TEMPERATURE)
    network = weights.load().network
    shares: dict[str, list[Floats]] = {name: [] for name in (ALL, VISITED, UNVISITED, *amounts(protocol.visits))}
    for training_batch in training_batches:
        outputs = planner_outputs(network, training_batch.table, training_batch.rollout.info())
        for task, output in zip(training_batch.rollout.tasks, outputs, strict=True):
            assert output.q_quantiles is not None
            below = task.solution.q[:, :, None] <= output.q_quantiles
            for name, members in groups(task, protocol.visits):
                if members.any():
                    shares[name].append(below[members].mean(axis=0))
    return [
        {"group": name, "level": level, "worlds": len(of_worlds), "observed": float(share)}
        for name, of_worlds in shares.items()
        if of_worlds
        for level, share in zip(network.config.quantiles, np.mean(of_worlds, axis=0), strict=True)
    ]


def groups(task: Task, edges: tuple[float, ...]) -> Iterator[tuple[str, Bools]]:
    """Names of groups and which pairs (S, A) of this task are in them: by visits of the pair, and of all on average."""
    p, shape = task.mdp.transition, task.mdp.reward.shape
    n_visits = sums_by(entry_rows(p), task.count, p.shape[0]).reshape(shape)
    goes_on = np.broadcast_to(~task.mdp.terminal[:, None], shape)
    yield ALL, goes_on
    yield VISITED, goes_on & (n_visits > 0)
    yield UNVISITED, goes_on & (n_visits == 0)
    yield amounts(edges)[np.searchsorted(edges, n_visits[goes_on].mean(), side="right")], goes_on


def amounts(edges: tuple[float, ...]) -> list[str]:
    """Names of the ranges of mean visits per pair between these `edges`, below and above them."""
    between = [f"visits per pair {low:g}–{high:g}" for low, high in pairwise(edges)]
    return [f"visits per pair < {edges[0]:g}", *between, f"visits per pair ≥ {edges[-1]:g}"]
