"""Exact answers about known MDPs: optimal values, the value of a policy, the normalized score."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import spsolve

from mdpfn.arrays import Floats, Ints
from mdpfn.model.mdp import MDPBatch, TabularMDP
from mdpfn.model.solvers import DEFAULT_TOLERANCE, PAPER_SWEEPS, value_iteration

IMPROVEMENT = 1e-10  # of a policy, relative to its value; less is rounding
DENSE_SOLVE_STATES = 128  # up to here a dense linear solve beats a sparse one


def optimal_q(mdp: TabularMDP, tolerance: float = DEFAULT_TOLERANCE) -> Floats:
    """(S, A) Q* of one MDP, to a tolerance relative to its largest |reward|."""
    absolute = tolerance * (np.abs(mdp.reward).max() or 1.0)
    q = value_iteration(mdp.transition, mdp.reward.reshape(-1), mdp.discount, mdp.first_pair, tolerance=absolute)
    return q.reshape(mdp.reward.shape)


def optimal_q_batch(
    batch: MDPBatch, tolerance: float = DEFAULT_TOLERANCE, max_sweeps: int | None = PAPER_SWEEPS
) -> Floats:
    """(pairs,) Q* of every MDP of a batch, all swept together."""
    return value_iteration(
        batch.transition,
        batch.reward,
        batch.discount[batch.pair_mdp],
        batch.first_pair,
        tolerance=tolerance,
        max_sweeps=max_sweeps,
    )


def policy_value(mdp: TabularMDP, policy: Ints | Floats) -> Floats:
    """(S,) V^π = (I − γ P_π)⁻¹ r_π, exactly; π as greedy actions (S,) or probabilities (S, A) (B.3)."""
    choose = _choosing(mdp, policy)
    p_pi = choose @ mdp.transition
    r_pi = choose @ mdp.reward.reshape(-1)
    if mdp.n_states <= DENSE_SOLVE_STATES:
        return np.linalg.solve(np.eye(mdp.n_states) - mdp.discount * p_pi.toarray(), r_pi)
    sparse: Floats = spsolve((eye_array(mdp.n_states) - mdp.discount * p_pi).tocsc(), r_pi)
    return sparse


def finite_horizon_value(mdp: TabularMDP, policy: Ints | Floats, horizon: int) -> float:
    """Expected discounted return of `horizon` steps of π from the start distribution."""
    choose = _choosing(mdp, policy)
    p_pi, r_pi, value = choose @ mdp.transition, choose @ mdp.reward.reshape(-1), np.zeros(mdp.n_states)
    for _ in range(horizon):
        value = r_pi + mdp.discount * (p_pi @ value)
    return float(mdp.start @ value)


def _choosing(mdp: TabularMDP, policy: Ints | Floats) -> csr_array:
    """(S, S·A) the matrix that averages over the actions of π, given as actions (S,) or probabilities (S, A)."""
    probabilities = policy if policy.ndim == 2 else np.eye(mdp.n_actions)[policy]
    pairs = np.arange(mdp.n_states * mdp.n_actions)
    return csr_array((probabilities.reshape(-1), (pairs // mdp.n_actions, pairs)), shape=(mdp.n_states, len(pairs)))


@dataclass(frozen=True, eq=False)
class Solution:
    """The solution of an MDP: Q*, the values of the optimal and the random policy, and the dense model."""

    q: Floats  # (S, A) Q*
    transition: Floats  # (S, A, S) γ P
    optimal_value: float  # from the start distribution
    random_value: float

    @property
    def gap(self) -> float:
        """The value of the optimal policy less that of the random one."""
        return max(self.optimal_value - self.random_value, 1e-9 * (1 + abs(self.optimal_value)))


def solve(mdp: TabularMDP) -> Solution:
    """The exact solution of a small MDP by policy iteration: no discount is too close to 1."""
    transition = mdp.discount * mdp.dense_transition
    states, eye = np.arange(mdp.n_states), np.eye(mdp.n_states)
    policy = mdp.reward.argmax(axis=1)
    while True:
        value = np.linalg.solve(eye - transition[states, policy], mdp.reward[states, policy])
        q = mdp.reward + transition @ value
        better = q.max(axis=1) > q[states, policy] + IMPROVEMENT * (1 + np.abs(value))
        if not better.any():
            break
        policy = np.where(better, q.argmax(axis=1), policy)
    chance = np.linalg.solve(eye - transition.mean(axis=1), mdp.reward.mean(axis=1))
    return Solution(q, transition, float(mdp.start @ value), float(mdp.start @ chance))


class Scorer:
    """The normalized score of policies of one MDP: uniform random 0, optimal 1 (B.3).

    Values are exact, discounted and averaged over the start distribution.
    """

    def __init__(self, mdp: TabularMDP) -> None:
        self.mdp = mdp
        uniform = np.full(mdp.reward.shape, 1 / mdp.n_actions)
        self.optimal_value = float(mdp.start @ optimal_q(mdp).max(axis=1))
        self.random_value = float(mdp.start @ policy_value(mdp, uniform))
        least = 1e-12 * np.abs(mdp.reward).max()  # where nothing is to be gained, rounding is no gain
        self.gap = max(self.optimal_value - self.random_value, least) or 1.0

    def __call__(self, policy: Ints | Floats) -> float:
        """(V^π − V_random) / (V* − V_random) for π as greedy actions (S,) or probabilities (S, A)."""
        value = float(self.mdp.start @ policy_value(self.mdp, policy))
        return (value - self.random_value) / self.gap
