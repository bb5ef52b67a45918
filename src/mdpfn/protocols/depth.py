"""Score against the depth K at which a network is unrolled, far below and beyond the one it was trained at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mdpfn.agents.policies import exploiting
from mdpfn.environments import ENVIRONMENTS, Simulator
from mdpfn.exact import Scorer
from mdpfn.exploration import sample_budget
from mdpfn.protocols.held_out import HeldOut, sample_held_out
from mdpfn.protocols.held_out_worlds import HeldOutWorlds, sample_held_out_worlds
from mdpfn.protocols.methods import IN_CONTEXT, Method, StoredPlanner
from mdpfn.protocols.parallel import generator, measure_cells
from mdpfn.protocols.results import Cell, ResultsFile, Row
from mdpfn.protocols.rollouts import plans, prepare_episode, run_episode

IDENTITY = ("environment", "weights", "depth")
MEASURED = ("seed", "score")
PRIOR = "prior"  # stands in the column `environment` for held-out MDPs of the prior


@dataclass(frozen=True)
class DepthProtocol:
    """Depths, and what is scored at each: held-out MDPs, and the paper's benchmarks after some episodes."""

    depths: tuple[int, ...] = (1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64, 100)
    environments: tuple[str, ...] = ("gridworld-3x3", "gridworld-5x5", "frozen-lake")
    seeds: int = 8
    episodes: int = 64
    horizon: int = 50
    acting_temperature: float = 1.0
    mdps_per_seed: int = 64
    budget: tuple[float, float] = (0.1, 10.0)


def run(protocol: DepthProtocol, planner: StoredPlanner, path: Path, *, command: str, workers: int) -> None:
    """Measure one model at every depth into the CSV file at `path`."""
    cells = [
        Cell(
            identity=(environment, planner.name, depth),
            settings=protocol,
            weights_hash=planner.weights_hash,
            measure=partial(
                measure_prior if environment == PRIOR else measure_online, protocol, environment, planner, depth
            ),
        )
        for depth in reversed(protocol.depths)
        for environment in (PRIOR, *protocol.environments)
    ]
    measure_cells(cells, ResultsFile(path, IDENTITY, MEASURED, command), workers=workers, title="depth")


def measure_prior(protocol: DepthProtocol, environment: str, planner: StoredPlanner, depth: int) -> list[Row]:
    """The exploiting policy's score on held-out MDPs of the prior the model was trained on, after random visits."""
    plan = planner.load(depth)
    rows: list[Row] = []
    for seed in range(protocol.seeds):
        problems = held_out_of(planner, protocol.mdps_per_seed, seed)
        rng = generator("depth", seed)
        budget = sample_budget(rng, protocol.mdps_per_seed, *protocol.budget)
        outlooks = plan(problems.statistics(rng, budget), problems.told)
        rows.append({"seed": seed, "score": problems.score([exploiting(o) for o in outlooks])})
    return rows


def held_out_of(planner: StoredPlanner, n: int, seed: int) -> HeldOut | HeldOutWorlds:
    """`n` problems of the prior that this model was trained on."""
    return sample_held_out(n, seed) if planner.world is None else sample_held_out_worlds(n, seed, planner.world)


def measure_online(protocol: DepthProtocol, environment: str, planner: StoredPlanner, depth: int) -> list[Row]:
    """The exploiting policy's exact score after the network, at this depth, has guided its own exploration."""
    mdp = ENVIRONMENTS[environment].build()
    scorer = Scorer(mdp)
    rngs = [generator("depth", environment, seed) for seed in range(protocol.seeds)]
    simulators = [Simulator(mdp, rng) for rng in rngs]
    method = Method(IN_CONTEXT, {"acting_temperature": protocol.acting_temperature}, planner, depth)
    make = method.maker(mdp)
    agents = [make(rng=rng) for rng in rngs]
    for _ in range(protocol.episodes):
        prepare_episode(agents)  # one call of the network for all seeds
        for agent, simulator in zip(agents, simulators, strict=True):
            run_episode(agent, simulator, protocol.horizon, terminal_ends=False)
    return [{"seed": seed, "score": scorer(policy)} for seed, policy in enumerate(plans(agents))]
