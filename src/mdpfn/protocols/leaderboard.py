"""Agents against many environments: exact score of what they would exploit with, after few episodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from mdpfn.environments import Environment, Simulator
from mdpfn.exact import Scorer
from mdpfn.protocols.methods import Method
from mdpfn.protocols.parallel import generator, measure_cells
from mdpfn.protocols.results import Cell, ResultsFile, Row
from mdpfn.protocols.rollouts import plans, prepare_episode, run_episode

P = TypeVar("P")

IDENTITY = ("environment", "agent", "weights", "depth")
MEASURED = ("seed", "episodes", "score")


@dataclass(frozen=True)
class LeaderboardProtocol:
    """Episodes that each agent has, and seeds over which it repeats them."""

    episodes: int = 64
    seeds: int = 5


def run(
    protocol: LeaderboardProtocol,
    methods: Sequence[Method],
    environments: Sequence[Environment],
    path: Path,
    *,
    command: str,
    workers: int,
) -> None:
    """Measure every method on every environment into the CSV file at `path`."""
    cells = cells_on(environments, methods, protocol, measure)
    measure_cells(cells, ResultsFile(path, IDENTITY, MEASURED, command), workers=workers, title="leaderboard")


def cells_on(
    environments: Sequence[Environment],
    methods: Sequence[Method],
    protocol: P,
    measure: Callable[[P, Environment, Method], list[Row]],
    options: tuple[str, ...] = (),
) -> list[Cell]:
    """A cell for every method on every environment; `options` tell apart methods that are called the same.

    Rows depend on the protocol, and on the content of the file that an environment was read from.
    """
    return [
        Cell(
            identity=(environment.name, *method.identity, *(method.options.get(option) for option in options)),
            settings=(protocol, environment.checksum) if environment.checksum else protocol,
            weights_hash=method.weights_hash,
            measure=partial(measure, protocol, environment, method),
        )
        for environment in environments
        for method in methods
    ]


def measure(protocol: LeaderboardProtocol, environment: Environment, method: Method) -> list[Row]:
    """One row per seed after 1, 2, 4, … episodes."""
    return scores_after({2**i for i in range(protocol.episodes.bit_length())}, protocol, environment, method)


def scores_after(
    episodes: Collection[int], protocol: LeaderboardProtocol, environment: Environment, method: Method
) -> list[Row]:
    """One row per seed after each of these numbers of episodes: the score of the plan, random 0 and optimal 1.

    Episodes end in terminal states and are truncated at the environment's horizon. Seeds advance together, so
    that their plans are one call of the network.
    """
    mdp = environment.build()
    scorer = Scorer(mdp)
    rngs = [generator("leaderboard", environment.name, method.name, seed) for seed in range(protocol.seeds)]
    simulators = [Simulator(mdp, rng) for rng in rngs]
    make = method.maker(mdp)
    agents = [make(rng=rng) for rng in rngs]
    rows: list[list[Row]] = [[] for _ in rngs]
    for episode in range(1, protocol.episodes + 1):
        prepare_episode(agents)
        for agent, simulator in zip(agents, simulators, strict=True):
            run_episode(agent, simulator, environment.horizon, terminal_ends=True)
        if episode in episodes:
            for seed, policy in enumerate(plans(agents)):
                rows[seed].append({"seed": seed, "episodes": episode, "score": scorer(policy)})
    return [row for of_seed in rows for row in of_seed]
