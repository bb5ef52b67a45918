"""Matrix products in float32 by the faster of torch's two libraries, where that costs no precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

ROUNDING = 1e-5  # relative error of a product that float32 explains; bfloat16 errs by some 1e-3


@contextmanager
def fast_products() -> Iterator[None]:
    """Within it, torch may multiply float32 matrices by oneDNN, if products stay as exact as before.

    By default torch asks MKL, which has no AVX-512 for processors of other makers. "medium" lets oneDNN do it, which
    would round to bfloat16 only where a processor has tiles for that (AMX): there everything stays as it was.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    if _product_error() > ROUNDING:
        torch.set_float32_matmul_precision(before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _product_error(rows: int = 512, width: int = 256) -> float:
    """Relative error of a product of random matrices, beside the same in float64."""
    rng = torch.Generator().manual_seed(0)
    x, w = (torch.randn(n, width, generator=rng) for n in (rows, width))
    exact = x.double() @ w.double().T
    return float((x @ w.T - exact).abs().max() / exact.abs().max())
