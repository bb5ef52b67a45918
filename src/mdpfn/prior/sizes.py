"""How large a sampled MDP is: states, actions, outdegree."""

import numpy as np


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """A number with uniform logarithm between `low` and `high`."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def sample_n_states(rng: np.random.Generator, low: int, high: int, quantile: float | None = None) -> int:
    """S ~ LogUniform(low, high), rounded (Table 2); the one at `quantile` of this distribution if that is given."""
    if quantile is None:
        quantile = rng.random()
    return int(np.rint(low * (high / low) ** quantile))


def sample_n_actions(rng: np.random.Generator, low: int, high: int) -> int:
    """A ~ Uniform{low, …, high} (Table 2)."""
    return int(rng.integers(low, high + 1))


def sample_outdegree(rng: np.random.Generator, high: int) -> int:
    """O with Pr(O = o) ∝ 1/o on 1 … high (Table 2)."""
    weight = 1 / np.arange(1, high + 1)
    return int(rng.choice(high, p=weight / weight.sum())) + 1
