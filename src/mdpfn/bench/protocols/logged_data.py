"""Logs of mediocre policies: soft ones some way from uniform random to optimal, and what their episodes sum up to."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdpfn.arrays import Floats, Ints, entry_rows, normalized, sums_by
from mdpfn.evidence import Statistics
from mdpfn.model.exact import Scorer, optimal_q
from mdpfn.model.mdp import TabularMDP

BISECTIONS = 40
COLDEST = 8.0  # log₁₀ of 1 / τ, in units of the largest loss by one action


def soft_policy(mdp: TabularMDP, score: float) -> Floats:
    """(S, A) softmax(Q* / τ) with τ such that its normalized score is this: 0 uniform random, 1 optimal."""
    scorer, q = Scorer(mdp), optimal_q(mdp)
    loss = q - q.max(axis=1, keepdims=True)
    loss /= np.abs(loss).max() or 1.0
    low, high = -COLDEST / 2, COLDEST
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        policy = normalized(np.exp(loss * 10**middle))
        low, high = (middle, high) if scorer(policy) < score else (low, middle)
    return policy


@dataclass(frozen=True, eq=False)
class Log:
    """What episodes sum up to: statistics, and how many began where."""

    statistics: Statistics
    starts: Counter[int]


class LogSource:
    """Samples logs of one MDP. Episodes are independent, so all of them go on together, as counts of states."""

    def __init__(self, mdp: TabularMDP) -> None:
        self.mdp = mdp

    def episodes(self, policy: Floats, n: int, horizon: int, rng: np.random.Generator) -> Log:
        """The log of n episodes of π (S, A), which end in terminal states and are cut off at the horizon."""
        mdp = self.mdp
        here = rng.multinomial(n, mdp.start)
        starts = Counter({int(s): int(here[s]) for s in np.flatnonzero(here)})
        counts = np.zeros(mdp.transition.nnz, dtype=np.int64)
        for _ in range(horizon):
            here = np.where(mdp.terminal, 0, here)
            states = np.flatnonzero(here)
            if not len(states):
                break
            taken = np.zeros(mdp.reward.shape, dtype=np.int64)
            taken[states] = rng.multinomial(here[states], policy[states])
            seen = self._outcomes(taken.reshape(-1), rng)
            counts += seen
            here = np.bincount(mdp.transition.indices, weights=seen, minlength=mdp.n_states).astype(np.int64)
        return Log(self._statistics(counts, rng), starts)

    def visits(self, n_visits: Ints, rng: np.random.Generator) -> Statistics:
        """The statistics of so many visits (S, A) of every pair."""
        return self._statistics(self._outcomes(n_visits.reshape(-1), rng), rng)

    @cached_property
    def _padded(self) -> tuple[Ints, Floats]:
        """(pairs, outcomes) places of the outcomes of each pair, and their probabilities, 0 where there is none."""
        first, last = self.mdp.transition.indptr[:-1, None], self.mdp.transition.indptr[1:, None]
        place = first + np.arange(int((last - first).max()))
        probability = np.where(place < last, self.mdp.transition.data[np.minimum(place, last - 1)], 0.0)
        return place, normalized(probability)

    def _outcomes(self, n_visits: Ints, rng: np.random.Generator) -> Ints:
        """(outcomes,) how often each came about in so many visits of its pair."""
        place, probability = self._padded
        visited = np.flatnonzero(n_visits)
        drawn = rng.multinomial(n_visits[visited], probability[visited])
        counts = np.zeros(self.mdp.transition.nnz, dtype=np.int64)
        counts[place[visited][drawn > 0]] = drawn[drawn > 0]
        return counts

    def _statistics(self, counts: Ints, rng: np.random.Generator) -> Statistics:
        """Statistics with exact sums of rewards and of their squares."""
        mdp = self.mdp
        seen = np.flatnonzero(counts)
        pair = entry_rows(mdp.transition)[seen]
        n, reward, std = counts[seen].astype(np.float64), mdp.outcome_reward[seen], mdp.reward_std.reshape(-1)[pair]
        noise = std * np.sqrt(n) * rng.standard_normal(len(n))  # Σ e
        rest = np.where(n > 1, rng.chisquare(np.maximum(n - 1, 1)), 0.0)  # Σ (e − ē)² in units of σ²
        sums = n * reward + noise
        squares = n * reward**2 + 2 * reward * noise + noise**2 / n + std**2 * rest
        visited, which = np.unique(pair, return_inverse=True)
        of_pair = zip(visited.tolist(), sums_by(which, sums).tolist(), sums_by(which, squares).tolist(), strict=True)
        found = Statistics(mdp.n_states, mdp.n_actions)
        successor = mdp.transition.indices[seen].astype(np.int64)
        ended = np.where(mdp.terminal[successor], n, 0.0)
        if len(seen):
            found.set_sums((pair, successor), n, ended, {p: ((a,), (b,)) for p, a, b in of_pair})
            spread = 3 * std
            found.note_rewards(float((reward - spread).min()), float((reward + spread).max()))
        found.terminal.update(np.unique(successor[ended > 0]).tolist())
        return found
