"""Policies recovered from a fixed set of uniform-random transitions (B.4)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mdpfn.bench.environments import ENVIRONMENTS, Environment, TabularEnv
from mdpfn.bench.protocols.leaderboard import cells_on
from mdpfn.bench.protocols.methods import IN_CONTEXT, Method, StoredWeights
from mdpfn.bench.protocols.results import Cell, Row
from mdpfn.evidence import Transition
from mdpfn.model.exact import Scorer
from mdpfn.model.mdp import TabularMDP
from mdpfn.online.env_adapters import adapter_of
from mdpfn.online.evaluation import FixedPolicy
from mdpfn.online.loop import run_episodes
from mdpfn.spaces.encoding import SpaceEncoding

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

    def methods(self, weights: StoredWeights) -> list[Method]:
        """The agent as it is shipped and at the paper's depth, and VI-LCB at every penalty."""
        ours = [Method(IN_CONTEXT, weights=weights), Method(IN_CONTEXT, {"depth": self.depth}, weights)]
        return [*ours, *(Method("vi-lcb", {"penalty": penalty}) for penalty in self.penalties)]


def cells(protocol: OfflineProtocol, weights: StoredWeights) -> list[Cell]:
    """VI-LCB, and the agent with these weights."""
    environments = [ENVIRONMENTS[name] for name in protocol.environments]
    return cells_on(environments, protocol.methods(weights), protocol, measure)


def measure(protocol: OfflineProtocol, environment: Environment, method: Method) -> list[Row]:
    """One row per seed and size of the data set, with the exact score of the policy recovered from it."""
    mdp = environment.build()
    seeds = range(protocol.seeds)
    streams = [uniform_stream(mdp, seed, max(protocol.sizes), protocol.horizon) for seed in seeds]
    return recover(mdp, method, streams, protocol.sizes)


def recover(
    mdp: TabularMDP, method: Method, streams: Sequence[Sequence[Transition]], sizes: Sequence[int]
) -> list[Row]:
    """One row per stream, numbered as its seed, and size n: the score of the policy from its first n transitions."""
    scorer = Scorer(mdp)
    rows: list[Row] = []
    for seed, stream in enumerate(streams):
        contestant = method.start(mdp, seed)
        for size in sizes:
            contestant.fit(stream[:size])
            rows.append({"seed": seed, "transitions": size, "score": scorer(contestant.policy())})
    return rows


@dataclass
class RecordedPolicy(FixedPolicy):
    """Keeps every transition as well."""

    transitions: list[Transition] = field(default_factory=list)

    def record(self, transition: Transition, environment: int) -> None:
        """Keep a transition, and note how its episode goes."""
        self.transitions.append(transition)
        super().record(transition, environment)


def uniform_stream(mdp: TabularMDP, seed: int, n_transitions: int, horizon: int) -> list[Transition]:
    """Transitions of the uniform policy, from the start again after `horizon` steps or in a terminal state."""
    env = TabularEnv(mdp, horizon=horizon)
    encoding = SpaceEncoding.of(mdp.n_states, mdp.n_actions)
    envs = adapter_of(env, encoding, encoding.find)
    rng = np.random.default_rng([seed, 1])  # the environment has the bare seed
    actor = RecordedPolicy(lambda state: int(rng.integers(mdp.n_actions)))
    run_episodes(actor, envs, seed=seed, goes_on=lambda: len(actor.transitions) < n_transitions)
    return actor.transitions
