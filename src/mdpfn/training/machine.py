"""What makes training fast on the machine at hand: which library multiplies, which numbers, and freed memory kept."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from mdpfn.network.config import Rounding

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
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


def _product_error() -> float:
    """Relative error of a product of random matrices, beside the same in float64."""
    rng = torch.Generator().manual_seed(0)
    x, w = (torch.randn(n, 256, generator=rng) for n in (512, 256))
    exact = x.double() @ w.double().T
    return float((x @ w.T - exact).abs().max() / exact.abs().max())


def supported(rounding: Rounding) -> Rounding:
    """The rounding of factors that this processor is fast at: none where it has no instructions for bfloat16."""
    return rounding if torch.cpu.get_capabilities().get("avx512_bf16") else "none"


def keep_freed_memory() -> None:
    """Have the C library keep what was freed: a step allocates what the last one did, and fresh pages are slow."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, 2**25)  # the largest that it takes
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
