"""Products by the faster library: as exact as before, and only while asked for."""

import pytest
import torch

from mdpfn.training import machine
from mdpfn.training.machine import fast_products, keep_freed_memory, supported


def test_products_stay_as_exact_as_float32(one_thread: None) -> None:
    x, w = torch.randn(300, 128), torch.randn(128, 256)
    with fast_products():
        found = x @ w
    torch.testing.assert_close(found.double(), x.double() @ w.double(), rtol=1e-4, atol=1e-4)


def test_the_setting_of_before_comes_back_even_after_an_error() -> None:
    before = torch.get_float32_matmul_precision()
    with pytest.raises(KeyError), fast_products():
        raise KeyError
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize(("error", "expected"), [(1e-3, "highest"), (1e-7, "medium")])
def test_where_it_would_round_it_is_not_used(monkeypatch: pytest.MonkeyPatch, error: float, expected: str) -> None:
    monkeypatch.setattr(machine, "_product_error", lambda: error)
    with fast_products():
        assert torch.get_float32_matmul_precision() == expected


@pytest.mark.parametrize(("instructions", "expected"), [({"avx512_bf16": True}, "bfloat16"), ({}, "none")])
def test_factors_are_rounded_where_that_is_fast(
    monkeypatch: pytest.MonkeyPatch, instructions: dict[str, bool], expected: str
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: instructions)
    assert supported("bfloat16") == expected
    assert supported("none") == "none"


def test_freed_memory_can_be_kept_anywhere() -> None:
    keep_freed_memory()
    assert torch.ones(2_000_000).sum() == 2_000_000
