"""A little simulated exploration of known MDPs: what the network gets to see in training (A.3)."""

from __future__ import annotations

import numpy as np

from mdpfn.arrays import Floats, offsets_of
from mdpfn.mdp import MDPBatch
from mdpfn.statistics import StatisticsBatch


def sample_budget(rng: np.random.Generator, n: int, low: float, high: float) -> Floats:
    """(n,) mean visits per pair of each MDP, log-uniform; stratified, so that batches are of even size.

    Each draw is log-uniform, and together they are spread evenly over the range, in random order.
    """
    quantile = (rng.permutation(n) + rng.random(n)) / n
    return low * (high / low) ** quantile


def explore(rng: np.random.Generator, batch: MDPBatch, budget: Floats) -> StatisticsBatch:
    """Statistics of N(s, a) ~ Poisson(budget of the MDP) visits to every pair, successors drawn from P(· | s, a).

    Rewards are fixed per pair in the prior, so r̂ = r wherever a pair was visited. They are to be divided by
    ρ = max |r|, the scale of the targets.
    """
    n_visits = rng.poisson(budget[batch.pair_mdp])
    visited = np.flatnonzero(n_visits)
    rows = batch.transition[visited]
    n_outcomes = np.diff(rows.indptr)
    outcome = np.arange(n_outcomes.max(initial=1)) < n_outcomes[:, None]
    probabilities = np.zeros(outcome.shape)
    probabilities[outcome] = rows.data
    counts = np.zeros(outcome.shape, dtype=np.int64)
    counts[:] = rng.multinomial(n_visits[visited], probabilities)
    seen = counts > 0
    mdp = batch.pair_mdp[visited]
    state_start = offsets_of(batch.n_states)
    successor = np.zeros(outcome.shape, dtype=np.int64)
    successor[outcome] = rows.indices
    return StatisticsBatch(
        n_states=batch.n_states,
        n_actions=batch.n_actions,
        pair_mdp=mdp,
        pair=visited - offsets_of(batch.n_pairs)[mdp],
        n_visits=n_visits[visited].astype(np.float64),
        reward_sum=n_visits[visited] * batch.reward[visited],
        n_successors=seen.sum(axis=1),
        successor=successor[seen] - state_start[np.repeat(mdp, seen.sum(axis=1))],
        transition_count=counts[seen].astype(np.float64),
        n_terminated=np.zeros(int(seen.sum())),
        reward_scale=batch.reward_scale,
    )
