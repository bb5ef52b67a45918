"""Exact sums of floats, which do not depend on the order of their terms: data may come in any order.

A sum of floats depends on the order in which they are added. Two ways out: a sum of *digits* is a sum of whole
numbers, which floats add without an error; and a sum of a few floats can be kept with everything that rounding took
from it (`exact_sum`).
"""

from collections.abc import Iterable
from math import fsum

import numpy as np

from mdpfn.arrays import Floats

DIGIT = 2.0**26  # two digits hold every bit behind the point of a number above 1, and 2²⁷ of them add up exactly
FINE = 2.0**-10  # below this size digits would lose precision that matters, and plain sums are used


def digits(values: Floats) -> Floats:
    """(3, k) whole part, first and second digit behind the point: sums of these are exact.

    What lies below 2⁻⁵² is cut off, number by number, and so in the same way everywhere.
    """
    whole = np.floor(values)
    rest = (values - whole) * DIGIT
    first = np.floor(rest)
    return np.stack([whole, first, np.floor((rest - first) * DIGIT)])


def from_digits(sums: Floats) -> list[tuple[float, ...]]:
    """The exact sums, as `exact_sum` gives them, from sums of digits (3, k)."""
    scaled = sums * np.array([[1.0], [1 / DIGIT], [1 / DIGIT**2]])
    return [exact_sum(column) for column in scaled.T.tolist()]


def exact_sum(parts: Iterable[float]) -> tuple[float, ...]:
    """The sum of some floats as a tuple: the rounded sum, then the rounding error, its own error, and so on.

    Equal sums are equal tuples, whatever the order and number of the parts.
    """
    terms = list(parts)
    total = [fsum(terms)]
    while rest := fsum([*terms, *(-part for part in total)]):
        total.append(rest)
    return tuple(total)
