"""A policy that leaves what was done so far only for what is surely better, by lower bounds of values.

Every pair is worth Q = r̂ + γ P̂ V less κ standard errors of that mean, and at least the worst reward for ever. What
single outcomes r + γ V(s') vary by is told by the visits of the pair and, as some visits more, by those of all pairs.
Doing what was done in a state, with the same chances, is one more choice: it was tried as often as the state was left,
so that its bound is nearer. Actions that were never tried are none. VI-LCB (Rashidinejad et al. 2021) has the largest
possible variance in place of the observed one, and no such choice.

Bounds add up over the steps that follow, so that a fraction of a standard error in each is enough; where hardly any
follow, as in a bandit, it is not. An action must therefore also be better than what was done by z / √h standard errors
of their difference, with h the discounted number of steps that follow: errors of h pairs make up √h of one of them.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from mdpfn.arrays import Floats, Ints, offsets_of, sums_by
from mdpfn.evidence import PairTable

ROUNDS = 12  # of standard errors, which depend on values
SWEEPS = 60  # of values in each of them, from where the last one ended
TOLERANCE = 1e-6  # of the largest value
POOLED_VISITS = 2.0  # that all pairs together add to what a pair says about its variance
FEW = 1.0  # 1 + this / N widens the bounds of pairs with few visits, as Student's t does


def cautious_policy(z: PairTable, discount: float, errors: float, caution: float, unknown: Floats) -> Floats:
    """(S, A) the policy with z = `errors` standard errors, κ = `caution` z √log(visited pairs).

    `unknown` (S,) is what states are worth that were never left; any action may be taken there.
    """
    n_states, n_actions = int(z.n_states[0]), int(z.n_actions[0])
    visits = z.visits_table()
    left = visits.sum(axis=1)
    known = np.flatnonzero(left)
    policy = np.where(left[:, None] > 0, visits / np.maximum(left, 1)[:, None], 1 / n_actions)
    if not len(known):
        return policy
    share = z.successor_probs * z.going_on
    transition = csr_array((share, z.successor, offsets_of(z.n_successors)), shape=(len(z.pair), n_states))
    noise = np.maximum(z.reward_square_sum / z.n_visits - z.mean_reward**2, 0)
    first, chance = np.searchsorted(z.state, known), z.n_visits / left[z.state]
    kappa = caution * errors * np.sqrt(np.log(max(len(z.pair), 2)))
    needed = errors / np.sqrt(_steps_that_follow(transition, z.state, chance, discount))[z.state]
    worst = min(float(z.mean_reward.min()), 0.0) / (1 - discount)
    value = np.where(z.terminal_mask() | (left > 0), 0.0, unknown)
    for _ in range(ROUNDS):
        before, later = value[known], transition @ value
        mean = z.mean_reward + discount * later
        spread = noise + discount**2 * np.maximum(transition @ value**2 - later**2, 0)
        usual = sums_by(z.state, chance * mean, n_states)
        mixed = np.maximum(sums_by(z.state, chance * (spread + mean**2), n_states) - usual**2, 0)
        pooled = POOLED_VISITS * (z.n_visits * spread).sum() / max((z.n_visits - 1).sum(), 1.0)
        error = np.sqrt(z.n_visits * spread + pooled) / z.n_visits * (1 + FEW / z.n_visits)
        less, less_usual = kappa * error, kappa * np.sqrt(left * mixed + pooled)[known] / left[known]
        of_usual = sums_by(z.state, (chance * error) ** 2, n_states)
        more = needed * np.sqrt(np.maximum(error**2 * (1 - 2 * chance) + of_usual[z.state], 0))  # of the difference
        for _ in range(SWEEPS):
            bound = z.mean_reward + discount * (transition @ value)
            usual = sums_by(z.state, chance * bound, n_states)
            keeps = usual[known] - less_usual
            bound = np.where(bound - usual[z.state] >= more, bound - less, -np.inf)
            best = np.maximum.reduceat(bound, first)
            new = np.maximum(np.maximum(best, keeps), worst)
            settled = np.abs(new - value[known]).max() <= TOLERANCE * np.abs(new).max()
            value[known] = new
            if settled:
                break
        if np.abs(value[known] - before).max() <= TOLERANCE * np.abs(before).max():
            break
    table = np.full((n_states, n_actions), -np.inf)
    table.reshape(-1)[z.pair] = bound
    moves = known[(best > keeps) & (best > worst)]
    policy[moves] = np.eye(n_actions)[table[moves].argmax(axis=1)]
    return policy


def _steps_that_follow(transition: csr_array, state: Ints, chance: Floats, discount: float) -> Floats:
    """(S,) the discounted number of steps from a state on, its own included, if all is done as it was."""
    n_states = transition.shape[1]
    steps = np.ones(n_states)
    for _ in range(SWEEPS):
        steps = 1 + discount * sums_by(state, chance * (transition @ steps), n_states)
    return steps
