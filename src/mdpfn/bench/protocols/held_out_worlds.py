"""Held-out worlds of the richer prior, and scores of policies for them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from mdpfn.arrays import Floats, Ints
from mdpfn.bench.protocols.parallel import generator
from mdpfn.evidence import PairTable
from mdpfn.model.exact import Scorer
from mdpfn.model.mdp import MDPBatch, TabularMDP
from mdpfn.planners.problem_info import ProblemInfo
from mdpfn.prior.world import WorldConfig, sample_world
from mdpfn.training.tasks import visit_pairs
from mdpfn.training.visits import observed

SMALLEST_GAIN = 1e-3  # of the best policy over chance, in units of the largest reward; below, a score is rounding


@dataclass(frozen=True, eq=False)
class HeldOutWorlds:
    """Sampled worlds, as scorers of policies."""

    scorers: Sequence[Scorer]

    @property
    def mdps(self) -> list[TabularMDP]:
        """The worlds."""
        return [scorer.mdp for scorer in self.scorers]

    def score(self, policies: Sequence[Ints | Floats]) -> float:
        """The mean over the worlds of the normalized score, clipped to 0..1: 0 for random, 1 for optimal policies."""
        scores = [scorer(policy) for scorer, policy in zip(self.scorers, policies, strict=True)]
        return float(np.clip(scores, 0, 1).mean())

    def statistics(self, rng: np.random.Generator, budget: Floats) -> PairTable:
        """Poisson visits with these means per pair; noisy rewards, and terminations are reported, as in training."""
        seen = [visit_pairs(rng, mdp, float(mean), reports=True) for mdp, mean in zip(self.mdps, budget, strict=True)]
        batch = MDPBatch.of(self.mdps)
        count, sums, squares = (np.concatenate([part[i] for part in seen]) for i in (0, 1, 2))
        largest = np.array([part.largest for part in seen])
        ends = np.concatenate([mdp.terminal for mdp in self.mdps])[batch.transition.indices]
        scale = ProblemInfo.concatenate([ProblemInfo.of()] * len(seen)).reward_scale(largest)
        return observed(batch, count, sums, squares, count * ends, scale)


def sample_held_out_worlds(n: int, seed: int, config: WorldConfig) -> HeldOutWorlds:
    """`n` worlds in which there is something to gain, from a stream of random numbers that training does not use."""
    return HeldOutWorlds(list(islice(_gainful(generator("held-out worlds", seed), config), n)))


def _gainful(rng: np.random.Generator, config: WorldConfig) -> Iterator[Scorer]:
    while True:
        scorer = Scorer(sample_world(rng, config))
        gain = scorer.optimal_value - scorer.random_value
        if gain > SMALLEST_GAIN * np.abs(scorer.mdp.reward).max():
            yield scorer
