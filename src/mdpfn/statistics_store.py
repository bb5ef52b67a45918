"""Statistics as tensors, and on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from mdpfn.errors import MdpfnError
from mdpfn.statistics import Statistics, StatisticsBatch
from mdpfn.storage import read_bundle, write_bundle

FORMAT = 1
TERMINAL = "terminal"


def save_statistics(statistics: Statistics, directory: Path) -> None:
    """Write statistics to a bundle of their own."""
    write_bundle(directory, statistics_to_tensors(statistics), {"kind": "statistics", "format": FORMAT})


def load_statistics(directory: Path) -> Statistics:
    """Statistics from a bundle of their own."""
    tensors, description = read_bundle(directory)
    if (description.get("kind"), description.get("format")) != ("statistics", FORMAT):
        limit = f"it must hold statistics of format {FORMAT}"
        raise MdpfnError("the bundle", repr(str(directory)), limit, "match the versions")
    return statistics_from_tensors(tensors)


def statistics_to_tensors(statistics: Statistics) -> dict[str, torch.Tensor]:
    """Everything observed; rows keep their order, so that what is read again plans bit by bit the same."""
    z = statistics.batch()
    tensors = {field.name: torch.from_numpy(getattr(z, field.name)) for field in fields(StatisticsBatch)}
    tensors[TERMINAL] = torch.tensor(sorted(statistics.terminal), dtype=torch.int64)
    tensors["reward_range"] = torch.tensor([statistics.reward_min, statistics.reward_max], dtype=torch.float64)
    return tensors


def statistics_from_tensors(tensors: Mapping[str, torch.Tensor]) -> Statistics:
    """The statistics that `statistics_to_tensors` took apart."""
    arrays: dict[str, Any] = {name: tensor.numpy() for name, tensor in tensors.items()}
    terminal, reward_range = arrays.pop(TERMINAL), arrays.pop("reward_range")
    return Statistics.from_batch(StatisticsBatch(**arrays), terminal.tolist(), *reward_range.tolist())
