"""A model estimated from observations, and planning on it: what every model-based agent is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from mdpfn.arrays import Bools, Floats, Ints
from mdpfn.solvers import value_iteration
from mdpfn.statistics import Statistics

DENSE_ENTRIES = 20_000  # up to here a dense product of P and V is faster than a sparse one
RELATIVE_TOLERANCE = 1e-6  # of the largest value that the rewards of a model allow
ACTING_SWEEPS = 80  # for the policy of one episode, starting where the last one ended, as the paper's baseline does


@dataclass(frozen=True, eq=False)
class EmpiricalTransition:
    """P̂ as an operator on values: observed rows, and uniform ones for pairs never visited.

    Nothing follows a termination, so a row that saw some sums to less than 1. The uniform rows are not stored,
    so that memory grows with what was observed.
    """

    rows: csr_array | Floats  # (pairs, states), zero where unvisited
    unvisited: Ints  # ids of the pairs never visited

    def __matmul__(self, value: Floats) -> Floats:
        """(pairs,) Σ_s' P̂(s' | s, a) V(s')."""
        expected: Floats = self.rows @ value
        if len(self.unvisited):
            expected[self.unvisited] = np.add.reduce(value) / len(value)
        return expected


@dataclass(frozen=True, eq=False)
class EstimatedModel:
    """P̂ and r̂ of every pair."""

    transition: EmpiricalTransition | csr_array
    reward: Floats  # (pairs,) r̂(s, a)
    n_visits: Floats  # (pairs,) N(s, a)
    terminal: Bools  # (pairs,) pairs of states in which episodes terminated and from which none went on
    first_pair: Ints  # (states,)

    @classmethod
    def most_likely(cls, statistics: Statistics) -> EstimatedModel:
        """The empirical model; a pair never visited pays 0 and leads anywhere with equal probability (B)."""
        z = statistics.batch()
        n_states, n_actions = statistics.n_states, statistics.n_actions
        n_pairs = n_states * n_actions
        rows: csr_array | Floats
        if n_pairs * n_states <= DENSE_ENTRIES:
            rows = np.zeros((n_pairs, n_states))
            rows[z.pair[z.transition_row], z.successor] = z.successor_probs * z.going_on
        else:
            lengths = np.zeros(n_pairs + 1, dtype=np.int64)
            lengths[z.pair + 1] = z.n_successors
            rows = csr_array((z.successor_probs * z.going_on, z.successor, lengths.cumsum()), shape=(n_pairs, n_states))
        n_visits, reward = np.zeros(n_pairs), np.zeros(n_pairs)
        n_visits[z.pair] = z.n_visits
        reward[z.pair] = z.mean_reward
        left = n_visits.reshape(n_states, n_actions).any(axis=1)
        return cls(
            transition=EmpiricalTransition(rows, np.flatnonzero(n_visits == 0)),
            reward=reward,
            n_visits=n_visits,
            terminal=np.repeat(statistics.terminal_mask() & ~left, n_actions),
            first_pair=np.arange(n_states) * n_actions,
        )

    def solve(
        self,
        discount: float,
        *,
        bonus: float | Floats = 0.0,
        limit: float = np.inf,
        pinned: Bools | None = None,
        pinned_value: float = 0.0,
        max_sweeps: int | None = None,
        initial_value: Floats | None = None,
    ) -> Floats:
        """(S, A) Q = clip(r̂ + bonus + γ P̂ V, −limit, limit) at its fixed point, V = max_a Q.

        `pinned` pairs have the value `pinned_value` instead; all pairs of a terminal state have the value 0.
        """
        n_states = len(self.first_pair)
        bounds = None
        if limit < np.inf or pinned is not None or self.terminal.any():
            lower, upper = np.full(len(self.reward), -limit), np.full(len(self.reward), limit)
            if pinned is not None:
                lower[pinned] = upper[pinned] = pinned_value
            lower[self.terminal] = upper[self.terminal] = 0.0
            bounds = (lower, upper)
        reward = self.reward + bonus
        largest = np.abs(reward).max() / (1 - discount) or 1.0
        q = value_iteration(
            self.transition,
            reward,
            discount,
            self.first_pair,
            tolerance=RELATIVE_TOLERANCE * largest,
            max_sweeps=max_sweeps,
            initial_value=initial_value,
            bounds=bounds,
        )
        return q.reshape(n_states, -1)
