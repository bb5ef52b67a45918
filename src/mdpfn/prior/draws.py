"""Small random choices that every family makes."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from mdpfn.arrays import Floats, normalized

T = TypeVar("T")


def coin(rng: np.random.Generator, probability: float) -> bool:
    """True with this probability."""
    return bool(rng.random() < probability)


def one_of(rng: np.random.Generator, options: Sequence[T]) -> T:
    """One of the options, all equally likely."""
    return options[int(rng.integers(len(options)))]


def whole(rng: np.random.Generator, low: int, high: int) -> int:
    """A whole number from low to high, both included; low where the range is empty."""
    return int(rng.integers(low, max(low, high) + 1))


def simplex(rng: np.random.Generator, concentration: float, shape: tuple[int, ...]) -> Floats:
    """Symmetric Dirichlet distributions along the last axis."""
    weight = np.maximum(rng.standard_gamma(concentration, shape), 1e-8)  # a small concentration can underflow to 0
    return normalized(weight)
