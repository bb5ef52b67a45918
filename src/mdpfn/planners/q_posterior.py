"""How sure data and prior make one of Q*.

Q̂ of the expected model is too high, because a maximum over estimates is; the Q* of draws are too high above it by
about as much, so what they have in excess is taken off. What the data leaves open lies around that by Student's t, with
tails that are heavier the fewer visits there are; what the prior leaves open is how far Q̂ moves with its quantiles.
"""

from __future__ import annotations

import numpy as np
import scipy  # its parts are loaded when they are used

from mdpfn.arrays import Floats
from mdpfn.planners.posterior import ModelPosterior

DRAWS = 48


def q_quantiles(posterior: ModelPosterior, discount: float, rng: np.random.Generator, draws: int = DRAWS) -> Floats:
    """(S, A, levels) of Q*."""
    levels = posterior.levels
    by_level = posterior.expected(levels).optimal_q(discount)  # (levels, S, A)
    drawn = posterior.drawn(rng, draws, median_prior=True).optimal_q(discount)
    middle = by_level[int(np.searchsorted(levels, 0.5))]
    with np.errstate(invalid="ignore"):  # −∞ − −∞ of actions that do not exist
        centre = 2 * middle - drawn.mean(axis=0)
        of_prior, of_data = by_level - middle, drawn.std(axis=0, ddof=1)
    steps = tail_steps(posterior.n_visits, levels)[:, None, None]
    quantiles = centre + np.sign(steps) * np.sqrt(of_prior**2 + (of_data * steps) ** 2)
    return np.moveaxis(np.where(np.isfinite(quantiles), quantiles, -np.inf), 0, -1)


def tail_steps(n_visits: float, levels: Floats) -> Floats:
    """(levels,) how many standard deviations of draws the truth lies away at these levels.

    Calibrated on worlds of the prior: draws of the data's models vary too little while what is rare was not seen.
    """
    n = max(n_visits, 0.5)
    steps: Floats = 1.04 * np.sqrt(1 + 3 / n) * scipy.special.stdtrit(0.5 + n**0.4, levels)
    return steps
