"""Where episodes begin: mostly at one state, at times at one of a few, or anywhere."""

import numpy as np

from mdpfn.arrays import Bools, Floats
from mdpfn.prior.draws import simplex, whole


def sample_start(rng: np.random.Generator, terminal: Bools) -> Floats:
    """(S,) a distribution over the states that are not terminal."""
    possible = np.flatnonzero(~terminal)
    start = np.zeros(len(terminal))
    kind = rng.random()
    if kind < 0.6:
        start[possible[int(rng.integers(len(possible)))]] = 1.0
    elif kind < 0.8:
        few = rng.permutation(possible)[: whole(rng, 2, min(5, len(possible)))]
        start[few] = simplex(rng, 1.0, (len(few),))
    else:
        start[possible] = 1 / len(possible)
    return start
