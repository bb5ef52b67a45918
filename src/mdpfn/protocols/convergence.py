"""Episodes until the greedy policy is near-optimal and stays so (B.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from mdpfn.environments import ENVIRONMENTS, Simulator
from mdpfn.exact import Scorer
from mdpfn.protocols.methods import IN_CONTEXT, Method, StoredPlanner
from mdpfn.protocols.parallel import measure_cells
from mdpfn.protocols.results import Cell, ResultsFile, Row
from mdpfn.protocols.rollouts import plans, run_episode

IDENTITY = ("environment", "method", "weights", "depth")
MEASURED = ("seed", "episodes")


@dataclass(frozen=True)
class ConvergenceProtocol:
    """The settings of B.3."""

    environments: tuple[str, ...] = ("gridworld-5x5", "frozen-lake", "gridworld-3x3")
    seeds: int = 12
    max_episodes: int = 1500
    horizon: int = 50
    threshold: float = 0.95
    window: int = 8
    depth: int = 24
    acting_temperature: float = 1.0
    ucbvi_bonus: float = 1.0
    q_learning_epsilon: float = 0.1

    def methods(self, planner: StoredPlanner | None) -> list[Method]:
        """The baselines, slowest first to keep all workers busy, and the in-context agent if there is a planner."""
        methods = [
            Method("q-learning", {"epsilon": self.q_learning_epsilon}),
            Method("ucbvi", {"bonus": self.ucbvi_bonus}),
        ]
        if planner is not None:
            methods.append(Method(IN_CONTEXT, {"acting_temperature": self.acting_temperature}, planner, self.depth))
        return methods


def run(
    protocol: ConvergenceProtocol, planner: StoredPlanner | None, path: Path, *, command: str, workers: int
) -> None:
    """Measure the baselines, and the in-context agent if there is a planner, into the CSV file at `path`."""
    cells = [
        Cell(
            identity=(environment, *method.identity),
            settings=protocol,
            weights_hash=method.weights_hash,
            measure=partial(measure, protocol, environment, method),
        )
        for method in protocol.methods(planner)
        for environment in protocol.environments
    ]
    measure_cells(cells, ResultsFile(path, IDENTITY, MEASURED, command), workers=workers, title="convergence")


def measure(protocol: ConvergenceProtocol, environment: str, method: Method) -> list[Row]:
    """One row per seed with the first episode of the window in which it converged, if it did.

    Seeds advance together, episode by episode, so that their plans are one call of the network, until each has
    converged. Every method is scored by what it plans from the data before an episode. (The paper scores
    Q-learning after it, which reads one episode less.) As in the paper, one generator drives agent and world,
    and the baselines are told the true range of rewards.
    """
    mdp = ENVIRONMENTS[environment].build()
    scorer = Scorer(mdp)
    rngs = [np.random.default_rng(seed) for seed in range(protocol.seeds)]
    simulators = [Simulator(mdp, rng) for rng in rngs]
    true_range = {} if method.planner else {"reward_range": (float(mdp.reward.min()), float(mdp.reward.max()))}
    make = method.maker(mdp, **true_range)
    agents = [make(rng=rng) for rng in rngs]
    scores: list[list[float]] = [[] for _ in rngs]
    converged: dict[int, int] = {}
    for _ in range(protocol.max_episodes):
        running = [seed for seed in range(protocol.seeds) if seed not in converged]
        for seed, policy in zip(running, plans([agents[seed] for seed in running]), strict=True):
            scores[seed].append(scorer(policy))
            start = window_start(scores[seed], protocol.threshold, protocol.window)
            if start is None:
                run_episode(agents[seed], simulators[seed], protocol.horizon, terminal_ends=False)
            else:
                converged[seed] = start
    return [{"seed": seed, "episodes": converged.get(seed)} for seed in range(protocol.seeds)]


def window_start(scores: Sequence[float], threshold: float, window: int) -> int | None:
    """The first episode, counted from 1, of the last `window` scores if all of them reach `threshold`."""
    last = scores[-window:]
    return len(scores) - window + 1 if len(last) == window and min(last) >= threshold else None
