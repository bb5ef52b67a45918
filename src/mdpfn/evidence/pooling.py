"""What noisy pairs have in common: where their successors share the visits equally, each is believed to.

Ice that is slippery in all directions and dice have outcomes of equal probability. Nobody who has seen that of many
pairs estimates each one from its own few visits. P(· | s, a) is taken to be Dirichlet(k, …, k) over the successors
seen, and one k is estimated from all pairs together, by its likelihood (empirical Bayes). A large k means equal shares;
where outcomes are not alike, every pair speaks for itself.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from mdpfn.evidence.table import PairTable

CONCENTRATIONS = 2.0 ** np.arange(-2, 7)  # k


@dataclass(frozen=True)
class PoolingConfig:
    """From when on pairs are believed to be alike."""

    visits_per_successor: float = 4.0  # from so many on a pair tells about k: before, what is rare was not seen
    least_concentration: float = 4.0  # below, successors do not share visits equally


def concentration(table: PairTable) -> float:
    """The most likely k of the pairs of one MDP; 0 where nothing can be told, or they are not alike."""
    config = PoolingConfig()
    tells = (table.n_successors > 1) & (table.n_visits >= config.visits_per_successor * table.n_successors)
    if not tells.any():
        return 0.0
    k, n_successors, n_visits = CONCENTRATIONS, table.n_successors[tells][:, None], table.n_visits[tells][:, None]
    count = table.transition_count[tells[table.transition_row]][:, None]
    likelihood = (gammaln(k * n_successors) - gammaln(n_visits + k * n_successors)).sum(axis=0)
    likelihood += (gammaln(count + k) - gammaln(k)).sum(axis=0)
    best = float(k[likelihood.argmax()])
    return best if best >= config.least_concentration else 0.0


def pooled(table: PairTable) -> PairTable:
    """The table of one MDP with the visits of noisy pairs shared more equally, as far as all of them together tell."""
    k = concentration(table)
    if k == 0.0:
        return table
    row = table.transition_row
    n_visits, n_successors = table.n_visits[row], table.n_successors[row]
    shared = (table.transition_count + k) * n_visits / (n_visits + k * n_successors)
    count = np.where(n_successors > 1, shared, table.transition_count)
    ended = table.n_terminated / table.transition_count  # exactly 1 where all did: rounding must not open a way on
    return replace(table, transition_count=count, n_terminated=ended * count)
