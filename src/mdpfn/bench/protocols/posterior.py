"""How good the policy read off little data is, beside the best that this data allows.

The best is the policy that maximizes the expected value over the posterior. It can be computed for the smallest
MDPs only: there, all deterministic policies are valued in some thousand MDPs of the prior, weighted by how likely
each makes the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from itertools import product

import numpy as np

from mdpfn.arrays import Floats, Ints
from mdpfn.bench.protocols.held_out import baseline_policy, greedy_actions, sample_held_out, statistics_of
from mdpfn.bench.protocols.methods import IN_CONTEXT, StoredWeights
from mdpfn.bench.protocols.parallel import generator
from mdpfn.bench.protocols.results import Cell, Row
from mdpfn.evidence import PairTable
from mdpfn.prior.paper import PriorConfig, sample_mdp

IDENTITY = ("prior", "method", "weights", "visits")
MEASURED = ("seed", "score")
TINY, FULL = "3 states, 2 actions", "all sizes"
BAYES, CERTAINTY = "bayes-optimal", "certainty-equivalence"


@dataclass(frozen=True)
class PosteriorProtocol:
    """Mean visits per pair, and over how many MDPs scores are averaged."""

    visits: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0)
    seeds: int = 8
    mdps_per_seed: int = 64
    posterior_samples: int = 5_000

    def prior(self, name: str) -> PriorConfig:
        """The paper's prior, whole or restricted to MDPs small enough for the exact answer."""
        return PriorConfig(n_states=(3, 3), n_actions=(2, 2)) if name == TINY else PriorConfig()


def cells(protocol: PosteriorProtocol, weights: StoredWeights) -> list[Cell]:
    """One model and its references at every amount of data."""
    methods = [(TINY, BAYES), (TINY, IN_CONTEXT), (FULL, IN_CONTEXT), (TINY, CERTAINTY), (FULL, CERTAINTY)]
    return [
        Cell(
            identity=(prior, method, weights.name if method == IN_CONTEXT else "", visits),
            settings=protocol,
            weights_hash=weights.weights_hash if method == IN_CONTEXT else "",
            measure=partial(measure, protocol, prior, method, weights, visits),
        )
        for prior, method in methods
        for visits in protocol.visits
    ]


def measure(protocol: PosteriorProtocol, prior: str, method: str, weights: StoredWeights, visits: float) -> list[Row]:
    """One row per seed: the score of the method's policies on fresh MDPs, all methods from the same data."""
    rows: list[Row] = []
    for seed in range(protocol.seeds):
        problems = sample_held_out(protocol.mdps_per_seed, seed, protocol.prior(prior))
        z = problems.statistics(generator("posterior", seed), np.full(protocol.mdps_per_seed, visits))
        if method == IN_CONTEXT:
            policies = greedy_actions(weights.load(), z, problems.mdps)
        elif method == BAYES:
            model = TinyPosterior.sample(protocol.posterior_samples)
            policies = [model.best_policy(z, i) for i in range(len(z))]
        else:
            policies = [baseline_policy(CERTAINTY, z, i, mdp).argmax(axis=1) for i, mdp in enumerate(problems.mdps)]
        rows.append({"seed": seed, "score": problems.score(policies)})
    return rows


@dataclass(frozen=True, eq=False)
class TinyPosterior:
    """Prior samples to be weighted by data: importance sampling of the posterior over 3 × 2 MDPs."""

    transition: Floats  # (n, S, A, S)
    reward: Floats  # (n, S, A)
    keep: Floats  # (n,) p_keep
    positive: Floats  # (n,) p_pos
    discount: float

    @staticmethod
    @cache
    def sample(n: int) -> TinyPosterior:
        """`n` MDPs of the prior, with the reward parameters that made them."""
        rng = generator("tiny posterior")
        config = PosteriorProtocol().prior(TINY)
        keep, positive = rng.beta(2, 4, n), rng.random(n)
        transition = np.array([sample_mdp(rng, config).dense_transition for _ in range(n)])
        shape = transition.shape[:3]
        sign = np.where(rng.random(shape) < positive[:, None, None], 1, -1)
        reward = (rng.random(shape) < keep[:, None, None]) * sign * rng.beta(2, 5, shape)
        return TinyPosterior(transition, reward, keep, positive, config.discount)

    def best_policy(self, z: PairTable, mdp: int) -> Ints:
        """(S,) the deterministic policy of the largest posterior mean value, averaged over start states.

        Rewards are seen without noise: those of visited pairs are known, and tell about p_keep and p_pos.
        """
        counts, sums = statistics_of(z, mdp).dense_counts()
        visits = counts.sum(axis=-1)
        known = sums / np.maximum(visits, 1)
        zero, plus, minus = (((visits > 0) & (np.sign(known) == s)).sum() for s in (0, 1, -1))
        log_weight = np.einsum("sat,nsat->n", counts, np.log(np.maximum(self.transition, 1e-12)))
        log_weight += zero * np.log1p(-self.keep) + (plus + minus) * np.log(self.keep)
        log_weight += plus * np.log(np.maximum(self.positive, 1e-12)) + minus * np.log1p(-self.positive)
        weight = np.exp(log_weight - log_weight.max())
        likely = weight > 1e-4 * weight.max()
        reward = np.where(visits > 0, known, self.reward[likely])
        n_states, n_actions = visits.shape
        best, best_value = np.zeros(n_states, dtype=np.int64), -np.inf
        states = np.arange(n_states)
        for actions in product(range(n_actions), repeat=n_states):
            system = np.eye(n_states) - self.discount * self.transition[likely][:, states, actions]
            value = np.linalg.solve(system, reward[:, states, actions][:, :, None]).mean(axis=(1, 2))
            expected = float(weight[likely] @ value)
            if expected > best_value:
                best, best_value = np.array(actions), expected
        return best
