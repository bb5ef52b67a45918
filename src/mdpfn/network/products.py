"""Matrix products of the propagation loop, into memory that is used again; their factors exact or rounded.

Processors with instructions for bfloat16 multiply such numbers twice as fast as float32. Only factors are rounded, to
8 bits, and every product once: sums over steps, residuals and norms keep the precision of the weights.
"""

import torch
from torch import Tensor

from mdpfn.network.config import Rounding


class Memory:
    """Buffers that are reused from one training step to the next, as fresh memory is slow."""

    def __init__(self) -> None:
        self.buffers: dict[tuple[str, int], Tensor] = {}
        self.views: dict[tuple[str, int], Tensor] = {}  # of the batch at hand

    def take(self, name: str, number: int, rows: int, like: Tensor) -> Tensor:
        """The buffer of this name and step, for as many rows like those of `like`; at first with anything in it."""
        view = self.views.get((name, number))
        if view is None:
            kept = self.buffers.get((name, number))
            if kept is None or kept.shape[0] < rows or (kept.dtype, kept.shape[1:]) != (like.dtype, like.shape[1:]):
                kept = self.buffers[name, number] = like.new_empty(rows + rows // 4, *like.shape[1:])
            view = self.views[name, number] = kept[:rows]
        return view


class Products:
    """Products whose factors are taken as they are, or rounded to bfloat16."""

    def __init__(self, rounding: Rounding, memory: Memory) -> None:
        self.rounding, self.memory = rounding, memory

    def matrix(self, weight: Tensor) -> Tensor:
        """A weight as a factor."""
        return weight.to(torch.bfloat16) if self.rounding == "bfloat16" else weight

    def factor(self, name: str, number: int, x: Tensor) -> Tensor:
        """`x`, the buffer of this name and step, as a factor; it is kept for `factor_again`."""
        return x if self.rounding == "none" else self._rounded(name, number, x).copy_(x)

    def factor_again(self, name: str, number: int, x: Tensor) -> Tensor:
        """What `factor` gave for it; of `x` only the shape counts where factors are rounded."""
        return x if self.rounding == "none" else self._rounded(name, number, x)

    def put(self, out: Tensor, a: Tensor, b: Tensor, constant: Tensor | None = None) -> Tensor:
        """out = a b + constant, of two factors."""
        if self.rounding == "none":
            return torch.mm(a, b, out=out) if constant is None else torch.addmm(constant, a, b, out=out)
        product = self._product(a, b)
        return out.copy_(product) if constant is None else torch.add(constant, product, out=out)

    def add(self, out: Tensor, a: Tensor, b: Tensor, scale: float = 1.0) -> Tensor:
        """out += scale · a b, of two factors."""
        if self.rounding == "none":
            return out.addmm_(a, b, alpha=scale)
        return out.add_(self._product(a, b), alpha=scale)

    def _rounded(self, name: str, number: int, x: Tensor) -> Tensor:
        like = x.new_empty(0, *x.shape[1:], dtype=torch.bfloat16)
        return self.memory.take(f"{name} rounded", number, x.shape[0], like)

    def _product(self, a: Tensor, b: Tensor) -> Tensor:
        """The product of rounded factors, rounded, until the next one of as many columns."""
        buffer = self.memory.buffers.get(("product", b.shape[1]))
        if buffer is None or len(buffer) < len(a):
            buffer = self.memory.buffers["product", b.shape[1]] = b.new_empty(len(a) + len(a) // 4, b.shape[1])
        return torch.mm(a, b, out=buffer[: len(a)])
