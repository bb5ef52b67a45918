"""Dropout that draws the few places to drop, which is faster than one random number per element."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def dropped_places(rng: np.random.Generator, n: int, rate: float) -> Tensor:
    """The places among `n` that are dropped, each with probability `rate` and independently, in rising order."""
    places, last = [], -1
    while last < n:
        expected = rate * n
        between = rng.standard_exponential(int(expected + 6 * expected**0.5) + 8) / -np.log1p(-rate)
        places.append(last + np.cumsum(between.astype(np.int64) + 1))  # from one to the next it is geometric
        last = int(places[-1][-1])
    found = np.concatenate(places)
    return torch.from_numpy(found[: np.searchsorted(found, n)])


def seeded_generator() -> np.random.Generator:
    """A generator that follows from the state of PyTorch's."""
    return np.random.default_rng(int(torch.randint(2**62, ())))


def dropout(x: Tensor, rate: float) -> Tensor:
    """`F.dropout` in training, faster on a CPU."""
    if x.device.type != "cpu":
        return F.dropout(x, rate)
    kept = torch.full_like(x, 1 / (1 - rate), requires_grad=False)
    kept.view(-1)[dropped_places(seeded_generator(), x.numel(), rate)] = 0
    return x * kept
