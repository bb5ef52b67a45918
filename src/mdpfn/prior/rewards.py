"""What an action pays: sparse, signed rewards per pair."""

import numpy as np

from mdpfn.arrays import Floats


def sample_keep_probability(rng: np.random.Generator) -> float:
    """p_keep ~ Beta(2, 4) (Table 2)."""
    return float(rng.beta(2, 4))


def sample_positive_fraction(rng: np.random.Generator) -> float:
    """p_pos ~ Uniform(0, 1) (Table 2)."""
    return float(rng.random())


def sample_rewards(rng: np.random.Generator, n_states: int, n_actions: int, keep: float, positive: float) -> Floats:
    """(S, A) r(s, a) = 1{u < p_keep} σ z with z ~ Beta(2, 5) and Pr(σ = +1) = p_pos (A.1)."""
    shape = (n_states, n_actions)
    kept = rng.random(shape) < keep
    sign = np.where(rng.random(shape) < positive, 1.0, -1.0)
    return kept * sign * rng.beta(2, 5, shape)
