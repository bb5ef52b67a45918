"""Pooling of noisy pairs: if successors of most pairs are equally likely, few visits of one pair do not override that.

Ice that is slippery in all directions and dice have outcomes of equal probability. Nobody who has seen that of many
pairs estimates each one from its own few visits. P(· | s, a) is taken to be Dirichlet(k, …, k) over the successors
seen, and one k is estimated from all pairs together, by its likelihood (empirical Bayes). A large k means equal shares;
where outcomes are not alike, every pair speaks for itself.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy  # its parts are loaded when they are used

from mdpfn.arrays import Floats
from mdpfn.evidence.table import PairTable

CONCENTRATIONS: Floats = 2.0 ** np.arange(-2.0, 7.0)  # k
LOOKED_UP = 2**16  # values of log Γ that are kept


@dataclass(frozen=True)
class PoolingConfig:
    """When pairs are pooled."""

    visits_per_successor: float = 4.0  # from so many on a pair tells about k: before, what is rare was not seen
    least_concentration: float = 4.0  # below, successors do not share visits equally


def concentration(table: PairTable) -> float:
    """The most likely k of the pairs of one MDP; 0 where nothing can be told, or they are not alike."""
    config = PoolingConfig()
    tells = (table.n_successors > 1) & (table.n_visits >= config.visits_per_successor * table.n_successors)
    if not tells.any():
        return 0.0
    k, n_visits = CONCENTRATIONS, table.n_visits[tells][:, None]
    prior, count = k * table.n_successors[tells][:, None], table.transition_count[tells[table.transition_row]][:, None]
    # Σ log Γ(k m) − log Γ(N + k m) over pairs with m successors, and Σ log Γ(n + k) − log Γ(k) over their transitions
    sign = np.repeat([1.0, -1.0, 1.0, -len(count)], [len(prior), len(prior), len(count), 1])
    likelihood = sign @ log_gamma(np.concatenate([prior, n_visits + prior, count + k, k[None]]))
    best = float(k[likelihood.argmax()])
    return best if best >= config.least_concentration else 0.0


def log_gamma(x: Floats) -> Floats:
    """log Γ(x), looked up where x is a multiple of the smallest concentration, as it is where visits are whole."""
    place = (x / CONCENTRATIONS[0]).astype(np.intp)
    largest = int(place.max(initial=0))
    if largest >= LOOKED_UP or (place * CONCENTRATIONS[0] != x).any():
        return np.asarray(scipy.special.gammaln(x), dtype=np.float64)
    found: Floats = _log_gammas(1 << largest.bit_length()).take(place)
    return found


@cache
def _log_gammas(n: int) -> Floats:
    """(n,) log Γ of the first multiples of the smallest concentration."""
    return np.asarray(scipy.special.gammaln(np.arange(n) * CONCENTRATIONS[0]), dtype=np.float64)


def pooled(table: PairTable) -> PairTable:
    """The table of one MDP with the visits of noisy pairs shared more equally, by the estimated concentration."""
    k = concentration(table)
    if k == 0.0:
        return table
    row = table.transition_row
    n_visits, n_successors = table.n_visits[row], table.n_successors[row]
    shared = (table.transition_count + k) * n_visits / (n_visits + k * n_successors)
    count = np.where(n_successors > 1, shared, table.transition_count)
    ended = table.n_terminated / table.transition_count  # exactly 1 where all did: rounding must not open a way on
    return table.with_numbers(transition_count=count, n_terminated=ended * count)
