"""Loops over tokens and edges that training spends its time on beside matrix products, compiled by Numba.

All arrays are contiguous and of one float type. Gradients are added to what is there, unless said otherwise. To be
vectorized, an inner loop runs over a whole row, reads no index, and meets numbers of the arrays' own type only.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]
F = TypeVar("F", bound=Callable[..., None])
EPSILON = 1e-5  # of nn.LayerNorm


def compiled(function: F) -> F:
    """Compile a function; sums may be reordered, but NaN and infinity are kept, so that divergence is noticed."""
    jit = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
    return cast(F, jit(function))


@compiled
def attend(query: Array, state: Array, start: Array, edge_state: Array, bias: Array, weight: Array, out: Array) -> None:
    """Successor attention (equation 2): its weights (edges, heads) and what is attended to (pairs, d).

    The edges of pair p are start[p] … start[p + 1]; `state` (states, 2 d) holds keys, then values.
    """
    (n_pairs, d), n_heads = query.shape, weight.shape[1]
    size = d // n_heads
    share, zero = np.empty_like(query[0]), query.dtype.type(0)
    for p in range(n_pairs):
        first, last = start[p], start[p + 1]
        for e in range(first, last):
            s = edge_state[e]
            for h in range(n_heads):
                dot = bias[e]
                for j in range(h * size, h * size + size):
                    dot += query[p, j] * state[s, j]
                weight[e, h] = dot
        for h in range(n_heads):
            top, total = weight[first, h], zero
            for e in range(first + 1, last):
                top = max(top, weight[e, h])
            for e in range(first, last):
                weight[e, h] = np.exp(weight[e, h] - top)
                total += weight[e, h]
            for e in range(first, last):
                weight[e, h] /= total
        out[p] = 0
        for e in range(first, last):
            s = edge_state[e]
            for h in range(n_heads):
                share[h * size : h * size + size] = weight[e, h]
            for j in range(d):
                out[p, j] += share[j] * state[s, d + j]


@compiled
def attend_backward(
    d_out: Array, query: Array, state: Array, start: Array, edge_state: Array, weight: Array, out: Array,
    d_query: Array, d_state: Array,
) -> None:  # fmt: skip
    """The gradient of `attend` by queries, which replaces what is there, and by keys and values."""
    (n_pairs, d), n_heads = query.shape, weight.shape[1]
    size = d // n_heads
    mean, share, d_logit = np.empty_like(weight[0]), np.empty_like(query[0]), np.empty_like(query[0])
    zero = query.dtype.type(0)
    for p in range(n_pairs):
        d_query[p] = 0
        for h in range(n_heads):
            dot = zero  # Σ_e w_e dL/dw_e = ⟨dL/dm, m⟩
            for j in range(h * size, h * size + size):
                dot += d_out[p, j] * out[p, j]
            mean[h] = dot
        for e in range(start[p], start[p + 1]):
            s = edge_state[e]
            for h in range(n_heads):
                dot = zero
                for j in range(h * size, h * size + size):
                    dot += d_out[p, j] * state[s, d + j]
                share[h * size : h * size + size] = weight[e, h]
                d_logit[h * size : h * size + size] = weight[e, h] * (dot - mean[h])
            for j in range(d):
                d_state[s, d + j] += share[j] * d_out[p, j]
            for j in range(d):
                d_state[s, j] += d_logit[j] * query[p, j]
            for j in range(d):
                d_query[p, j] += d_logit[j] * state[s, j]


@compiled
def add_and_normalize(
    x: Array, bias: Array, residual: Array, gain: Array, shift: Array, inverse_std: Array, out: Array
) -> None:
    """LayerNorm of x + bias + residual; what is normalized, before gain and shift, is left in `x`."""
    n, d = x.shape
    number = x.dtype.type
    each, epsilon = number(1 / d), number(EPSILON)
    for i in range(n):
        mean, variance = number(0), number(0)
        for j in range(d):
            total = x[i, j] + bias[j] + residual[i, j]
            x[i, j] = total
            mean += total
        mean *= each
        for j in range(d):
            deviation = x[i, j] - mean
            variance += deviation * deviation
        inverse = number(1) / np.sqrt(variance * each + epsilon)
        inverse_std[i] = inverse
        for j in range(d):
            normal = (x[i, j] - mean) * inverse
            x[i, j] = normal
            out[i, j] = normal * gain[j] + shift[j]


@compiled
def normalize_backward(
    d_out: Array, normal: Array, gain: Array, inverse_std: Array, d_gain: Array, d_shift: Array, d_bias: Array
) -> None:
    """The gradient of `add_and_normalize` by its sum, in place of `d_out`; and by gain, shift and bias."""
    n, d = d_out.shape
    number = d_out.dtype.type
    each = number(1 / d)
    for i in range(n):
        mean, dot = number(0), number(0)
        for j in range(d):
            d_gain[j] += d_out[i, j] * normal[i, j]
            d_shift[j] += d_out[i, j]
            scaled = d_out[i, j] * gain[j]
            mean += scaled
            dot += scaled * normal[i, j]
        mean, dot, inverse = mean * each, dot * each, inverse_std[i]
        for j in range(d):
            d_sum = inverse * (d_out[i, j] * gain[j] - mean - normal[i, j] * dot)
            d_out[i, j] = d_sum
            d_bias[j] += d_sum


@compiled
def combine(x: Array, start: Array, index: Array, weight: Array, out: Array) -> None:
    """out[i] = Σ_e weight[e] x[index[e]] over the entries start[i] … start[i + 1] of row i."""
    for i in range(len(start) - 1):
        out[i] = 0
        for e in range(start[i], start[i + 1]):
            k, share = index[e], weight[e]
            for j in range(x.shape[1]):
                out[i, j] += share * x[k, j]


@compiled
def combine_backward(d_out: Array, start: Array, index: Array, weight: Array, d_x: Array) -> None:
    """The gradient of `combine` by x."""
    for i in range(len(start) - 1):
        for e in range(start[i], start[i + 1]):
            k, share = index[e], weight[e]
            for j in range(d_x.shape[1]):
                d_x[k, j] += share * d_out[i, j]


@compiled
def add_rows(x: Array, index: Array, constant: Array, out: Array) -> None:
    """out = constant, and x[index] on top of the first rows."""
    for i in range(len(index)):
        k = index[i]
        for j in range(x.shape[1]):
            out[i, j] = constant[i, j] + x[k, j]
    out[len(index) :] = constant[len(index) :]


@compiled
def add_rows_backward(d_out: Array, index: Array, d_x: Array, d_constant: Array) -> None:
    """The gradient of `add_rows` by x and by the constant."""
    for i in range(len(d_out)):
        for j in range(d_out.shape[1]):
            d_constant[i, j] += d_out[i, j]
    for i in range(len(index)):
        k = index[i]
        for j in range(d_out.shape[1]):
            d_x[k, j] += d_out[i, j]
