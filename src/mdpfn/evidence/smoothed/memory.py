"""Transitions of vectors, kept within a fixed capacity."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints
from mdpfn.evidence.smoothed.config import SmootherConfig


class Batch(NamedTuple):
    """Transitions as arrays, one row each."""

    x: Floats  # (n, d)
    action: Ints  # (n,) of those planned over, the nearest one
    code: Floats  # (n, p) what was done, exactly
    reward: Floats  # (n,)
    y: Floats  # (n, d) successor
    ended: Bools  # (n,) whether it ended the episode for good


class Memory:
    """A bounded store of transitions: when full, cells of (x, action) that hold many are thinned, ends are kept."""

    def __init__(self, n_dims: int, n_codes: int, config: SmootherConfig) -> None:
        n = config.capacity
        self.config, self.n_seen, self._n = config, 0, 0
        self._store = Batch(np.empty((n, n_dims)), np.empty(n, np.int64), np.empty((n, n_codes)), np.empty(n),
                            np.empty((n, n_dims)), np.empty(n, np.bool_))  # fmt: skip
        self.starts: list[Floats] = []

    def __len__(self) -> int:
        return self._n

    def add_start(self, x: Floats) -> None:
        """Remember where an episode began."""
        self.starts.append(x.copy())
        del self.starts[: -self.config.n_starts]

    def extend(self, rows: Batch) -> None:
        """Store these transitions."""
        done, capacity = 0, self.config.capacity
        while done < len(rows.x):
            if self._n == capacity:
                self._thin()
            n = min(capacity - self._n, len(rows.x) - done)
            for kept, new in zip(self._store, rows, strict=True):
                kept[self._n : self._n + n] = new[done : done + n]
            self._n, self.n_seen, done = self._n + n, self.n_seen + n, done + n

    def batch(self) -> Batch:
        """What is kept, oldest first (views, not copies)."""
        columns: list[Any] = [column[: self._n] for column in self._store]
        return Batch(*columns)

    def _thin(self) -> None:
        """Keep the recent eighth, ends (at most an eighth), and one transition per cell of the rest."""
        b, n = self.batch(), self.config.capacity
        recent = np.arange(n - n // 8, n)
        ends = np.flatnonzero(b.ended)[-n // 8 :]
        order = np.random.default_rng(self.n_seen).permutation(n - n // 8)
        scaled = b.x[order] / positive_scale(b.x.std(0), b.x)
        index, _ = thin(scaled, n // 4, 0.02, b.action[order])
        keep = np.unique(np.concatenate([recent, ends, order[index]]))
        store: list[Any] = [np.empty_like(column) for column in self._store]  # the old one stays, for the interrupted
        for new, column in zip(store, self._store, strict=True):
            new[: len(keep)] = column[keep]
        self._store, self._n = Batch(*store), len(keep)


def thin(z: Floats, n: int, cell: float = 0.02, labels: Ints | None = None) -> tuple[Ints, float]:
    """Indices of at most n rows, one per cell of the finest grid that allows it (and per label), and its cell size."""
    z = z - z.min(0)  # so that one large cell holds everything
    index = _one_per_cell(z, cell, labels)
    while len(index) > n and np.ptp(z) > cell:
        cell *= max(1.15, (len(index) / max(n, 1)) ** (1 / (2 + z.shape[1])))
        index = _one_per_cell(z, cell, labels)
    return index[:n], cell


def _one_per_cell(z: Floats, cell: float, labels: Ints | None) -> Ints:
    """The first row in every cell of a grid (and of every label)."""
    keys = np.floor(z / cell).astype(np.int64)
    if labels is not None:
        keys = np.column_stack([keys, labels])
    span = keys.max(0) + 1
    if float(np.prod(span.astype(float))) < 2.0**62:  # one integer per cell: much faster than rows
        flat = np.ravel_multi_index(tuple(keys.T), tuple(span))
    else:
        flat = (keys * (np.random.default_rng(0).integers(1, 2**62, keys.shape[1]) | 1)).sum(1)
    return np.unique(flat, return_index=True)[1]


@lru_cache
def index_pairs(n: int) -> tuple[Ints, Ints]:
    """All i ≤ j < n; kept, since making them costs as much as using them."""
    i, j = np.triu_indices(n)
    return i, j


def positive_scale(scale: Floats, x: Floats) -> Floats:
    """The scale, but for constant dimensions their size, or one: a later change is seen, and not infinite."""
    size = np.abs(x).max(0)
    return np.where(scale > 1e-9 * size, scale, np.where(size > 0, size, 1.0))
