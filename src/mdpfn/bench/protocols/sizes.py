"""Score against the number of states, far beyond the sizes in training, beside baselines."""

from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.bench.protocols.held_out import baseline_policy, greedy_actions
from mdpfn.bench.protocols.held_out_worlds import HeldOutWorlds, sample_held_out_worlds
from mdpfn.bench.protocols.methods import IN_CONTEXT, StoredWeights
from mdpfn.bench.protocols.parallel import generator
from mdpfn.bench.protocols.results import Cell, Row
from mdpfn.evidence import PairTable
from mdpfn.prior.world import MIXTURE, WorldConfig

IDENTITY = ("states", "method", "weights")
MEASURED = ("visits", "seed", "score")
CERTAINTY, PESSIMISTIC = "certainty-equivalence", "vi-lcb"
SCALING = tuple(name for name in MIXTURE if name != "bandit")  # a bandit with more contexts is only more bandits


@dataclass(frozen=True)
class SizesProtocol:
    """Sizes, amounts of data, and over how many worlds scores are averaged."""

    n_states: tuple[int, ...] = (16, 32, 64, 128, 250, 500)
    visits: tuple[float, ...] = (0.3, 1.0, 3.0)  # mean visits per pair
    families: tuple[str, ...] = SCALING
    discount: float = 0.99  # the same at every size, and far-sighted enough to see across the largest
    penalty: float = 0.1  # c of VI-LCB, in units of a world's largest reward
    seeds: int = 8
    worlds_per_seed: int = 16

    def prior(self, n_states: int) -> WorldConfig:
        """Worlds of this many states, or the few less that a family's shape allows."""
        families = {name: MIXTURE[name] for name in self.families}
        return WorldConfig((n_states, n_states), discount=(self.discount, self.discount), families=families)


def cells(protocol: SizesProtocol, weights: StoredWeights) -> list[Cell]:
    """One model and its references at every size."""
    return [
        Cell(
            identity=(n_states, method, weights.name if method == IN_CONTEXT else ""),
            settings=(protocol, protocol.prior(n_states)),
            weights_hash=weights.weights_hash if method == IN_CONTEXT else "",
            measure=partial(measure, protocol, n_states, method, weights),
        )
        for n_states in reversed(protocol.n_states)
        for method in (IN_CONTEXT, CERTAINTY, PESSIMISTIC)
    ]


def measure(protocol: SizesProtocol, n_states: int, method: str, weights: StoredWeights) -> list[Row]:
    """One row per amount of data and seed: the score of the method's policies, all methods from the same data."""
    rows: list[Row] = []
    for seed in range(protocol.seeds):
        worlds = worlds_of_size(protocol, n_states, seed)
        for visits in protocol.visits:
            z = worlds.statistics(generator("sizes", seed, str(visits)), np.full(protocol.worlds_per_seed, visits))
            if method == IN_CONTEXT:
                score = worlds.score(greedy_actions(weights.load(), z, worlds.mdps))
            else:
                score = worlds.score(reference_policies(protocol, method, worlds, z))
            rows.append({"visits": visits, "seed": seed, "score": score})
    return rows


@lru_cache(maxsize=8)  # the methods of one size, measured one after the other, share its worlds
def worlds_of_size(protocol: SizesProtocol, n_states: int, seed: int) -> HeldOutWorlds:
    """The worlds of one size and seed."""
    return sample_held_out_worlds(protocol.worlds_per_seed, seed, protocol.prior(n_states))


def reference_policies(protocol: SizesProtocol, method: str, worlds: HeldOutWorlds, z: PairTable) -> list[Floats]:
    """(S, A) per world: the policy of a baseline."""
    policies = []
    for i, mdp in enumerate(worlds.mdps):
        largest = float(np.abs(mdp.outcome_reward).max())
        settings = {"penalty": protocol.penalty * largest} if method == PESSIMISTIC else {}
        policies.append(baseline_policy(method, z, i, mdp, **settings))
    return policies
