"""How sure data and prior make one of Q*.

Q̂ of the expected model is too high, because a maximum over estimates is; the Q* of draws are too high above it by
about as much, so what they have in excess is taken off. What the data leaves open lies around that by Student's t, with
tails that are heavier the fewer visits the pairs have that it comes from; what the prior leaves open is how far Q̂ moves
with its quantiles.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy  # its parts are loaded when they are used

from mdpfn.arrays import Floats, offsets_of
from mdpfn.planners.policies import best_actions, one_hot
from mdpfn.planners.posterior import ModelPosterior

DRAWS = 48
PRIOR_TAILS = 4.0  # degrees of freedom: errors of the prior on logs, beyond its quartiles, in held-out worlds
CERTAIN = 1e9  # visits where nothing is left to chance


def q_quantiles(posterior: ModelPosterior, discount: float, rng: np.random.Generator, draws: int = DRAWS) -> Floats:
    """(S, A, levels) of Q*."""
    levels = posterior.levels
    by_level = posterior.expected(levels).optimal_q(discount)  # (levels, S, A)
    drawn = posterior.drawn(rng, draws, median_prior=True).optimal_q(discount)
    middle = by_level[int(np.searchsorted(levels, 0.5))]
    steps = tail_steps(effective_visits(posterior, middle, discount), levels[:, None, None])
    with np.errstate(invalid="ignore"):  # −∞ − −∞ of actions that do not exist
        centre = middle - np.maximum(drawn.mean(axis=0) - middle, 0)
        of_prior = (by_level - middle) * _heavier(levels)[:, None, None]
        of_data = drawn.std(axis=0, ddof=1) * steps
        quantiles = centre + np.sign(steps) * np.sqrt(of_prior**2 + of_data**2)
    return np.moveaxis(np.where(np.isfinite(quantiles), quantiles, -np.inf), 0, -1)


def effective_visits(posterior: ModelPosterior, q: Floats, discount: float) -> Floats:
    """(S, A) visits of the pairs that the variance of Q(s, a) comes from: their harmonic mean, weighted by it.

    A visit of (s, a) adds Var[r + γ V(s')], and what follows adds its own by γ² P: Bellman's equation of variances,
    solved once for them and once for variances divided by visits. It is what Satterthwaite (1946) does with degrees.
    """
    z = posterior.table
    value = np.where(np.isfinite(q), q, -np.inf).max(axis=1, initial=-np.inf)
    value = np.where(np.isfinite(value), value, 0.0)
    paid = np.where(posterior.on_arrival[z.transition_row], posterior.arrival_reward[z.successor], 0.0)
    outcome = paid + discount * z.going_on * value[z.successor]
    first = offsets_of(z.n_successors)[:-1]
    mean, square = (np.add.reduceat(z.successor_probs * each, first) for each in (outcome, outcome**2))
    noise = posterior.reward_error**2
    variance = np.where(posterior.unvisited, 0.0, np.maximum(square - mean**2, 0) / z.n_visits + noise)
    models = replace(posterior.expected(np.array([0.5, 0.5])), reward=np.stack([variance, variance / z.n_visits]))
    policy = one_hot(best_actions(q), q.shape[1])
    variances, by_visits = models.backup(models.policy_value(policy, discount**2), discount**2)
    found = np.full(q.size, CERTAIN)
    found[z.pair] = np.divide(variances, by_visits, out=np.full(len(z.pair), CERTAIN), where=by_visits > 0)
    return found.reshape(q.shape)


def tail_steps(n_visits: Floats | float, levels: Floats) -> Floats:
    """How many standard deviations of draws the truth lies away at these levels, with so many visits.

    Draws from Dirichlet(N) vary by p (1 − p) / (N + 1) where N samples tell of p (1 − p) / (N − 1). Tails were fitted
    on worlds of the prior: they are heavier than those of N − 1 degrees while what is rare was not seen.
    """
    n = np.maximum(n_visits, 0.5)
    steps: Floats = np.sqrt(1 + 3 / n) * scipy.special.stdtrit(0.5 + n**0.4, levels)
    return steps


def _heavier(levels: Floats) -> Floats:
    """(levels,) by how much quantiles of a normal distribution move to be those of Student's t, if quartiles stay."""
    outer = np.append(np.maximum(np.abs(levels - 0.5), 0.25), 0.25) + 0.5
    ratio: Floats = scipy.special.stdtrit(PRIOR_TAILS, outer) / scipy.special.ndtri(outer)
    return np.asarray(ratio[:-1] / ratio[-1])
