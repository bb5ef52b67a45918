"""Which states lie near which: the latent geometry that makes transition graphs coherent."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from mdpfn.arrays import Ints

# Dimension of the latent space; `random` has no geometry at all.
GEOMETRIES: Mapping[str, int | None] = MappingProxyType({"chain": 1, "grid": 2, "mesh": 3, "random": None})


def sample_geometry(rng: np.random.Generator) -> str:
    """g uniform on chain, grid, mesh, random (Table 2)."""
    return str(rng.choice(list(GEOMETRIES)))


def sample_neighbours(rng: np.random.Generator, geometry: str, n_states: int, pool_size: int) -> Ints:
    """(S, pool_size) the successor pool N(s, ·) of every state.

    States are points x_s ~ Uniform[0, 1]^d and a pool holds the nearest ones, a state itself included; without
    a geometry it is a uniformly random subset.
    """
    dimension = GEOMETRIES[geometry]
    if dimension is None:
        distance = rng.random((n_states, n_states))
    else:
        x = rng.random((n_states, dimension))
        distance = ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1)
    return distance.argsort(axis=1)[:, :pool_size]
