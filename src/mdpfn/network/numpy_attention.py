"""Multi-head successor attention as in `attention.py`, and sums over segments, in NumPy."""

from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from mdpfn.arrays import Ints

DENSE_ENTRIES = 20_000  # up to here a dense product is faster than a sparse one


class Segments:
    """Which of n segments each row of an array belongs to, prepared once for many reductions."""

    def __init__(self, segment: Ints, n: int, dtype: np.dtype[Any]) -> None:
        self.segment, self.n = segment, n
        n_rows = len(segment)
        if n * n_rows <= DENSE_ENTRIES:
            self._members = np.zeros((n, n_rows), dtype)
            self._members[segment, np.arange(n_rows)] = 1
        else:
            rows = np.ones(n_rows, dtype), segment, np.arange(n_rows + 1)
            self._members = csr_array(rows, shape=(n_rows, n)).T

    def sums(self, rows: np.ndarray) -> np.ndarray:
        """(n, d) the sum of the rows (rows, d) of each segment."""
        total: np.ndarray = self._members @ rows
        return total

    def maxima(self, rows: np.ndarray) -> np.ndarray:
        """(n, d) the largest of the rows (rows, d) of each segment, if they ascend and none is empty."""
        top: np.ndarray = np.maximum.reduceat(rows, self._first, axis=0)
        return top

    @cached_property
    def _first(self) -> Ints:
        """(n,) where each segment begins."""
        return self.segment.searchsorted(np.arange(self.n))


def successor_attention(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, edges: Segments, edge_state: Ints, edge_bias: Any, heads: int
) -> np.ndarray:
    """(pairs, d) m⁽ⁱ⁾_sa = Σ_s' softmax_s'(α⁽ⁱ⁾_sa) v⁽ⁱ⁾_s' for every head i, the heads side by side (equation 2)."""
    width = query.shape[1]
    split = (-1, heads, width // heads)
    asked, offered = query.take(edges.segment, axis=0), key.take(edge_state, axis=0)
    logits = np.einsum("ehd,ehd->eh", asked.reshape(split), offered.reshape(split))
    weights = segment_softmax(logits + edge_bias[:, None], edges)
    messages = weights[:, :, None] * value.take(edge_state, axis=0).reshape(split)
    return edges.sums(messages.reshape(-1, width))


def segment_softmax(logits: np.ndarray, segments: Segments) -> np.ndarray:
    """(edges, heads) softmax over the edges of each segment, separately per head."""
    weight: np.ndarray = np.exp(logits - segments.maxima(logits).take(segments.segment, axis=0))
    weight /= segments.sums(weight).take(segments.segment, axis=0)
    return weight
