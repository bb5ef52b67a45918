"""Score against the depth K at which a network is unrolled, far below and beyond the one it was trained at."""

from dataclasses import dataclass
from functools import partial

from mdpfn.bench.environments import ENVIRONMENTS, TabularEnv
from mdpfn.bench.protocols.held_out import HeldOut, greedy_actions, sample_held_out
from mdpfn.bench.protocols.held_out_worlds import HeldOutWorlds, sample_held_out_worlds
from mdpfn.bench.protocols.methods import IN_CONTEXT, Method, StoredWeights
from mdpfn.bench.protocols.parallel import generator, seed_of
from mdpfn.bench.protocols.results import Cell, Row
from mdpfn.model.exact import Scorer
from mdpfn.training.visits import sample_budget

IDENTITY = ("environment", "weights", "depth")
MEASURED = ("seed", "score")
PRIOR = "prior"  # stands in the column `environment` for held-out MDPs of the prior


@dataclass(frozen=True)
class DepthProtocol:
    """The depths, and the problems scored at each: held-out MDPs, and the paper's benchmarks after some episodes."""

    depths: tuple[int, ...] = (1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64, 100)
    environments: tuple[str, ...] = ("gridworld-3x3", "gridworld-5x5", "frozen-lake")
    seeds: int = 8
    episodes: int = 64
    horizon: int = 50
    acting_temperature: float = 1.0
    mdps_per_seed: int = 64
    budget: tuple[float, float] = (0.1, 10.0)


def cells(protocol: DepthProtocol, weights: StoredWeights) -> list[Cell]:
    """One model at every depth."""
    return [
        Cell(
            identity=(environment, weights.name, depth),
            settings=protocol,
            weights_hash=weights.weights_hash,
            measure=partial(
                measure_prior if environment == PRIOR else measure_online, protocol, environment, weights, depth
            ),
        )
        for depth in reversed(protocol.depths)
        for environment in (PRIOR, *protocol.environments)
    ]


def measure_prior(protocol: DepthProtocol, environment: str, weights: StoredWeights, depth: int) -> list[Row]:
    """The policy's score on held-out MDPs of the prior the model was trained on, after random visits."""
    rows: list[Row] = []
    for seed in range(protocol.seeds):
        problems = held_out_of(weights, protocol.mdps_per_seed, seed)
        rng = generator("depth", seed)
        table = problems.statistics(rng, sample_budget(rng, protocol.mdps_per_seed, *protocol.budget))
        policies = greedy_actions(weights.load(), table, problems.mdps, depth)
        rows.append({"seed": seed, "score": problems.score(policies)})
    return rows


def held_out_of(weights: StoredWeights, n: int, seed: int) -> HeldOut | HeldOutWorlds:
    """`n` problems of the prior that this model was trained on."""
    return sample_held_out(n, seed) if weights.world is None else sample_held_out_worlds(n, seed, weights.world)


def measure_online(protocol: DepthProtocol, environment: str, weights: StoredWeights, depth: int) -> list[Row]:
    """The policy's exact score after the network, at this depth, has guided its own exploration."""
    mdp = ENVIRONMENTS[environment].build()
    scorer = Scorer(mdp)
    method = Method(IN_CONTEXT, {"acting_temperature": protocol.acting_temperature, "depth": depth}, weights)
    rows: list[Row] = []
    for seed in range(protocol.seeds):
        contestant = method.start(mdp, seed_of("depth", environment, seed))
        contestant.solve(TabularEnv(mdp, horizon=protocol.horizon, terminates=False), protocol.episodes)
        rows.append({"seed": seed, "score": scorer(contestant.policy())})
    return rows
