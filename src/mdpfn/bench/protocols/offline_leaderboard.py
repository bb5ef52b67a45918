"""Agents that learn from logged data against many environments: exact score by size of the data set."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mdpfn.bench.environments import Environment
from mdpfn.bench.protocols.leaderboard import cells_on
from mdpfn.bench.protocols.methods import Method
from mdpfn.bench.protocols.offline import recover, uniform_stream
from mdpfn.bench.protocols.parallel import seed_of
from mdpfn.bench.protocols.results import Cell, Row

MEASURED = ("seed", "transitions", "score")
PENALTIES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)  # c of VI-LCB, in units of the environment's largest reward


@dataclass(frozen=True)
class OfflineLeaderboardProtocol:
    """Seeds over which data is collected, and how many transitions of it an agent gets."""

    seeds: int = 5
    sizes: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048)


def variants(method: Method) -> list[Method]:
    """The method, VI-LCB once for every penalty."""
    if method.name != "vi-lcb":
        return [method]
    return [replace(method, options={"penalty": penalty}) for penalty in PENALTIES]


def cells(
    protocol: OfflineLeaderboardProtocol, methods: Sequence[Method], environments: Sequence[Environment]
) -> list[Cell]:
    """Every method, VI-LCB once for every penalty, on every environment."""
    return cells_on(environments, [v for method in methods for v in variants(method)], protocol, measure)


def measure(protocol: OfflineLeaderboardProtocol, environment: Environment, method: Method) -> list[Row]:
    """One row per seed and size of the data set, with the exact score of the policy recovered from it.

    The data are episodes of uniform-random actions, which end in terminal states and at the environment's
    horizon. All methods see the same stream of a seed, and its first n transitions as the data set of size n.
    """
    mdp = environment.build()
    seeds = [seed_of("offline", environment.name, seed) for seed in range(protocol.seeds)]
    streams = [uniform_stream(mdp, seed, max(protocol.sizes), environment.horizon) for seed in seeds]
    if "penalty" in method.options:
        largest = float(np.abs(mdp.outcome_reward).max())
        method = replace(method, options={"penalty": method.options["penalty"] * largest})
    return recover(mdp, method, streams, protocol.sizes)
