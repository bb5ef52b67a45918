"""How probable it is that a pair does next what it was not seen to do yet, as pairs that were visited more often tell.

Of a pair with N visits, n that are chosen at random tell what its first n might have been, and whether the next one is
new: sums over its successors say so exactly (rarefaction). For n = N − 1 it is the estimate of Good and Turing. A pair
that always did the same so far is told by those that might have, and one that did not by the others.
"""

from __future__ import annotations

import numpy as np
import scipy  # its parts are loaded when they are used

from mdpfn.arrays import Bools, Floats
from mdpfn.evidence import PairTable

IGNORANCE = 1.0  # c where no pair was visited twice
ROUNDING = 1e-9  # of numbers of pairs


def unseen_weights(z: PairTable) -> Floats:
    """(rows,) c such that a pair with N visits does what was not seen yet with probability c / (c + N)."""
    largest = int(z.n_visits.max(initial=0.0)) - 1
    if largest < 1:
        return np.full(len(z.pair), IGNORANCE)
    n = np.unique(np.append(2.0 ** np.arange(np.floor(np.log2(largest)) + 1), largest))
    weight = np.empty(len(z.pair))
    for rows, chance in zip(_same_or_not(z), _chances_of_new(z, n), strict=True):
        told = np.isfinite(chance)
        c = n[told] * chance[told] / np.maximum(1 - chance[told], 1 / (n[told] + 1))
        weight[rows] = np.interp(np.log(z.n_visits[rows]), np.log(n[told]), c) if told.any() else IGNORANCE
    return weight


def _same_or_not(z: PairTable) -> tuple[Bools, Bools]:
    """(rows,) pairs that always did the same, and the others."""
    return z.n_successors == 1, z.n_successors > 1


def _chances_of_new(z: PairTable, n: Floats) -> tuple[Floats, Floats]:
    """(n,) that visit n + 1 of a pair is new if the first n were the same, and if they were not; NaN if none tells."""
    count, total = z.transition_count[:, None], z.n_visits[z.transition_row][:, None]
    tells = total > n
    ways = _log_ways(total, n)
    none = np.exp(_log_ways(total - count, n) - ways) * (total - count >= n)  # of n visits led there …
    only = np.exp(_log_ways(count, n) - ways) * (count >= n)  # … or all
    left = np.maximum(total - n, 1.0)
    new, same, same_new = (
        np.where(tells, each, 0.0).sum(axis=0) for each in (none * count / left, only, only * (total - count) / left)
    )
    others = (z.n_visits[:, None] > n).sum(axis=0) - same
    with np.errstate(invalid="ignore", divide="ignore"):
        if_same = np.where(same > ROUNDING, same_new / same, np.nan)
        return if_same, np.where(others > ROUNDING, np.maximum(new - same_new, 0.0) / others, np.nan)


def _log_ways(total: Floats, n: Floats) -> Floats:
    """log of n! × the ways to choose n of `total`, where there is one."""
    return np.asarray(scipy.special.gammaln(total + 1) - scipy.special.gammaln(np.maximum(total - n, 0.0) + 1))
