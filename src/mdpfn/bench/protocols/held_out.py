"""Held-out MDPs of the paper's prior, and scores of policies for them."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mdpfn.agent import Agent
from mdpfn.arrays import Floats, Ints
from mdpfn.baselines import OFFLINE_BASELINES
from mdpfn.bench.protocols.parallel import generator
from mdpfn.evidence import PairTable, Statistics
from mdpfn.model.exact import optimal_q, policy_value
from mdpfn.model.mdp import MDPBatch, TabularMDP
from mdpfn.planners.problem_info import ProblemInfo
from mdpfn.prior.paper import PriorConfig, sample_mdp
from mdpfn.training.visits import explore
from mdpfn.weights import Model


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Sampled MDPs with the values of their optimal and random policies, averaged over start states."""

    mdps: Sequence[TabularMDP]
    optimal: Floats  # (n,)
    random: Floats  # (n,)

    def score(self, policies: Sequence[Ints | Floats]) -> float:
        """(Σ V^π/ρ − Σ V_random/ρ) / (Σ V*/ρ − Σ V_random/ρ) over the MDPs: 0 for random, 1 for optimal policies.

        A ratio of sums, because single MDPs in which nothing can be gained have no score.
        """
        value = np.array([_scaled_value(m, p) for m, p in zip(self.mdps, policies, strict=True)])
        return float((value - self.random).sum() / (self.optimal - self.random).sum())

    def statistics(self, rng: np.random.Generator, budget: Floats) -> PairTable:
        """Poisson exploration with these mean visits per pair, rewards scaled as at use: by the largest seen."""
        z = explore(rng, MDPBatch.of(self.mdps), budget)
        largest = np.zeros(len(z))
        np.maximum.at(largest, z.pair_mdp, np.abs(z.mean_reward))
        unknown = ProblemInfo.concatenate([ProblemInfo.of()] * len(z))
        return replace(z, reward_scale=unknown.reward_scale(largest))


def sample_held_out(n: int, seed: int, prior: PriorConfig | None = None) -> HeldOut:
    """`n` MDPs from a stream of random numbers that training does not use."""
    rng = generator("held out", seed)
    mdps = [sample_mdp(rng, prior) for _ in range(n)]
    optimal = [_scaled_value(m, optimal_q(m).argmax(axis=1)) for m in mdps]
    random = [_scaled_value(m, np.full(m.reward.shape, 1 / m.n_actions)) for m in mdps]
    return HeldOut(mdps, np.array(optimal), np.array(random))


def _scaled_value(mdp: TabularMDP, policy: Ints | Floats) -> float:
    """V^π averaged over the start distribution, in units of ρ = max |r|."""
    return float(mdp.start @ policy_value(mdp, policy)) / (np.abs(mdp.reward).max() or 1.0)


def statistics_of(z: PairTable, mdp: int) -> Statistics:
    """The statistics of one MDP of a batch, for an agent.

    The single rewards are unknown here, so means stand in for the smallest and the largest.
    """
    one = z.part(mdp)
    rewards = one.mean_reward
    terminal = one.successor[one.n_terminated > 0].tolist()
    return Statistics.from_table(one, terminal, rewards.min(initial=np.inf), rewards.max(initial=-np.inf))


def greedy_actions(model: Model, table: PairTable, mdps: Sequence[TabularMDP], depth: int | None = None) -> list[Ints]:
    """(S,) per MDP: the greedy actions of the agent with this model, given the statistics in `table`."""
    agent = Agent(model, depth=depth)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of discounts outside the trained ones
        return [agent.plan(statistics_of(table, i), discount=mdp.discount).greedy for i, mdp in enumerate(mdps)]


def baseline_policy(name: str, z: PairTable, number: int, mdp: TabularMDP, **settings: float) -> Floats:
    """(S, A) the policy of an offline baseline for one MDP of a batch."""
    info = ProblemInfo.of(mdp.discount)
    return OFFLINE_BASELINES[name](statistics_of(z, number), info, generator(name), **settings).plan()
