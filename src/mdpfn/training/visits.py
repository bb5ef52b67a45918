"""Simulated exploration of known MDPs: the statistics the network sees in training (A.3)."""

import numpy as np

from mdpfn.arrays import Floats, entry_rows, offsets_of, sums_by
from mdpfn.evidence import PairTable
from mdpfn.model.mdp import MDPBatch


def sample_budget(rng: np.random.Generator, n: int, low: float, high: float) -> Floats:
    """(n,) mean visits per pair of each MDP, log-uniform; stratified, so that batches are of even size.

    Each draw is log-uniform, and together they are spread evenly over the range, in random order.
    """
    quantile = (rng.permutation(n) + rng.random(n)) / n
    return low * (high / low) ** quantile


def explore(rng: np.random.Generator, batch: MDPBatch, budget: Floats) -> PairTable:
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
    drawn = np.zeros(outcome.shape)
    drawn[:] = rng.multinomial(n_visits[visited], probabilities)
    count = np.zeros(batch.transition.nnz)
    count[np.repeat(n_visits > 0, np.diff(batch.transition.indptr))] = drawn[outcome]
    rewards = n_visits * batch.reward, n_visits * batch.reward**2
    return observed(batch, count, *rewards, np.zeros(len(count)), batch.reward_scale)


def observed(
    batch: MDPBatch,
    count: Floats,
    reward_sum: Floats,
    reward_square_sum: Floats,
    terminated: Floats,
    reward_scale: Floats,
) -> PairTable:
    """The table from how often each stored transition was observed and how often it ended an episode.

    `count` and `terminated` are aligned with the entries of `batch.transition`, sums of rewards with its rows.
    """
    row = entry_rows(batch.transition)
    seen = np.flatnonzero(count)
    n_successors = np.bincount(row[seen], minlength=len(reward_sum))
    visited = np.flatnonzero(n_successors)
    mdp = batch.pair_mdp[visited]
    first_state = offsets_of(batch.n_states)[batch.pair_mdp[row[seen]]]
    return PairTable(
        n_states=batch.n_states,
        n_actions=batch.n_actions,
        pair_mdp=mdp,
        pair=visited - offsets_of(batch.n_pairs)[mdp],
        n_visits=sums_by(row[seen], count[seen], len(reward_sum))[visited],
        reward_sum=reward_sum[visited],
        reward_square_sum=reward_square_sum[visited],
        duration=np.ones(len(visited)),
        n_successors=n_successors[visited],
        successor=batch.transition.indices[seen] - first_state,
        transition_count=count[seen],
        n_terminated=terminated[seen],
        reward_scale=reward_scale,
        forbidden_mdp=np.zeros(0, dtype=np.int64),
        forbidden=np.zeros(0, dtype=np.int64),
    )
