"""Policies recovered from a fixed set of uniform-random transitions (B.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from mdpfn.agents import Transition
from mdpfn.environments import ENVIRONMENTS, Simulator
from mdpfn.exact import Scorer
from mdpfn.mdp import TabularMDP
from mdpfn.protocols.methods import IN_CONTEXT, Method, StoredPlanner
from mdpfn.protocols.parallel import measure_cells
from mdpfn.protocols.results import Cell, ResultsFile, Row
from mdpfn.protocols.rollouts import plans
from mdpfn.statistics import Statistics

IDENTITY = ("environment", "method", "weights", "depth", "penalty")
MEASURED = ("seed", "transitions", "score")


@dataclass(frozen=True)
class OfflineProtocol:
    """The settings of B.4."""

    environments: tuple[str, ...] = ("gridworld-5x5", "frozen-lake", "gridworld-3x3")
    seeds: int = 8
    sizes: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
    horizon: int = 50
    depth: int = 24
    penalties: tuple[float, ...] = (0.0, 0.1, 0.3, 0.5, 1.0, 2.0)  # c of VI-LCB; the paper settles on 0.1

    def methods(self, planner: StoredPlanner | None) -> list[Method]:
        """VI-LCB at every penalty, and the in-context agent if there is a planner."""
        methods = [Method("vi-lcb", {"penalty": penalty}) for penalty in self.penalties]
        return methods if planner is None else [Method(IN_CONTEXT, planner=planner, depth=self.depth), *methods]


def run(protocol: OfflineProtocol, planner: StoredPlanner | None, path: Path, *, command: str, workers: int) -> None:
    """Measure VI-LCB, and the in-context agent if there is a planner, into the CSV file at `path`."""
    cells = [
        Cell(
            identity=(environment, *method.identity, method.options.get("penalty")),
            settings=protocol,
            weights_hash=method.weights_hash,
            measure=partial(measure, protocol, environment, method),
        )
        for method in protocol.methods(planner)
        for environment in protocol.environments
    ]
    measure_cells(cells, ResultsFile(path, IDENTITY, MEASURED, command), workers=workers, title="offline recovery")


def measure(protocol: OfflineProtocol, environment: str, method: Method) -> list[Row]:
    """One row per seed and size of the data set, with the exact score of the policy recovered from it."""
    mdp = ENVIRONMENTS[environment].build()
    streams = [
        uniform_stream(mdp, np.random.default_rng(seed), max(protocol.sizes), protocol.horizon)
        for seed in range(protocol.seeds)
    ]
    return recover(mdp, method, streams, protocol.sizes)


def recover(
    mdp: TabularMDP, method: Method, streams: Sequence[Sequence[Transition]], sizes: Sequence[int]
) -> list[Row]:
    """One row per stream, numbered as its seed, and size n: the score of the policy from its first n transitions."""
    scorer = Scorer(mdp)
    rows: list[Row] = []
    data: list[Statistics] = []
    for seed, stream in enumerate(streams):
        for size in sizes:
            columns = zip(*(transition[:5] for transition in stream[:size]), strict=True)
            data.append(Statistics.from_transitions(*columns, n_states=mdp.n_states, n_actions=mdp.n_actions))
            rows.append({"seed": seed, "transitions": size})
    make, unused = method.maker(mdp), np.random.default_rng(0)  # nothing is sampled
    for row, policy in zip(rows, plans([make(rng=unused, statistics=observed) for observed in data]), strict=True):
        row["score"] = scorer(policy)
    return rows


def uniform_stream(mdp: TabularMDP, rng: np.random.Generator, n_transitions: int, horizon: int) -> list[Transition]:
    """Transitions of the uniform policy, from the start again after `horizon` steps or in a terminal state."""
    simulator = Simulator(mdp, rng)
    stream: list[Transition] = []
    state, step = simulator.reset(), 0
    for _ in range(n_transitions):
        action = int(rng.integers(mdp.n_actions))
        reward, next_state, terminated = simulator.step(action)
        step += 1
        truncated = step == horizon and not terminated
        stream.append(Transition(state, action, reward, next_state, terminated, truncated))
        state, step = (simulator.reset(), 0) if terminated or truncated else (next_state, step)
    return stream
