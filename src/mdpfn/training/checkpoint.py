"""Checkpoints of a training run: the newest whole one is always there, whatever killed the process."""

from __future__ import annotations

import fcntl
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch

from mdpfn.errors import MdpfnError
from mdpfn.storage import read_bundle, remove_unfinished, write_bundle

KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run after `step` steps."""

    step: int
    tensors: dict[str, torch.Tensor]
    description: dict[str, Any]


class RunDirectory:
    """`checkpoints/`, `metrics.jsonl` and a lock; one process at a time may own it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics_path = path / "metrics.jsonl"
        self.checkpoints = path / "checkpoints"
        self._lock: IO[str] | None = None

    def acquire(self) -> None:
        """Own the directory until the process ends."""
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / "lock").open("w")
        except OSError as error:
            limit = f"it must be writable ({error.strerror})"
            raise MdpfnError("the run directory", repr(str(self.path)), limit, "choose another place") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            limit = "only one process may train in it at a time"
            raise MdpfnError("the run directory", f"{str(self.path)!r}, in use", limit, "wait or use another") from None
        remove_unfinished(self.checkpoints)

    def save(self, step: int, tensors: dict[str, torch.Tensor], description: dict[str, Any]) -> None:
        """Write a checkpoint, then drop all but the newest ones."""
        write_bundle(self.checkpoints / f"step-{step:09d}", tensors, {"step": step, **description})
        for old in self._directories()[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that can be read, None where there is none at all."""
        error: MdpfnError | None = None
        for directory in reversed(self._directories()):
            try:
                tensors, description = read_bundle(directory)
                return Checkpoint(description["step"], tensors, description)
            except MdpfnError as damaged:
                error = damaged
        if error is not None:
            raise error
        return None

    def truncate_metrics(self, step: int) -> None:
        """Forget what was measured after `step`: a resumed run measures it again."""
        if not self.metrics_path.exists():
            return
        lines = self.metrics_path.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step]
        self.metrics_path.write_text("".join(kept), encoding="utf-8")

    def _directories(self) -> list[Path]:
        return sorted(self.checkpoints.glob("step-*"))
