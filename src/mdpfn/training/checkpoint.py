"""The directory of a training run, in which a whole checkpoint survives whatever kills the process."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mdpfn.errors import MdpfnError
from mdpfn.storage import cannot_write, read_bundle, remove_leftovers, sync, write_bundle

KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run after `step` steps."""

    step: int
    tensors: dict[str, torch.Tensor]
    description: dict[str, Any]


class RunDirectory:
    """`checkpoints/`, `metrics.jsonl`, `snapshots/` of the model on the way, the finished model, and a lock.

    One process at a time may own it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics_path = path / "metrics.jsonl"
        self.checkpoints = path / "checkpoints"
        self.model = path / "model.safetensors"
        self.snapshots = path / "snapshots"

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Keep other processes out; the lock goes with the process, however it ends."""
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            lock = (self.path / "lock").open("w")
        except OSError as error:
            raise cannot_write(self.path, error) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                value = f"{str(self.path)!r}, in use"
                limit = f"only one process may train in it at a time ({error.strerror})"
                raise MdpfnError("the run directory", value, limit, "wait or use another") from None
            for directory in (self.path, self.checkpoints, self.snapshots):
                remove_leftovers(directory)
            yield

    def save(self, step: int, tensors: Mapping[str, torch.Tensor], description: Mapping[str, Any]) -> None:
        """Write a checkpoint, then drop all but the newest ones."""
        sync(self.metrics_path)  # whoever goes on from the checkpoint finds all that was measured before it
        written = self.checkpoints / f"step-{step:09d}.safetensors"
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
        write_bundle(written, arrays, {"step": step, **description})
        files = self._files()
        past = files[: files.index(written) + 1]
        for file in files:
            if file not in past[-KEPT:]:  # of the future are only those that were too damaged to go on from
                file.unlink(missing_ok=True)

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that can be read, None where there is none at all."""
        errors = []
        for file in reversed(self._files()):
            try:
                arrays, description = read_bundle(file)
                tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
                return Checkpoint(description["step"], tensors, description)
            except MdpfnError as damaged:
                errors.append(damaged)
        if errors:
            raise errors[0]
        return None

    def append_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a line to `metrics.jsonl`."""
        try:
            with self.metrics_path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"step": step, **metrics}) + "\n")
        except OSError as error:
            raise cannot_write(self.metrics_path, error) from error

    def truncate_metrics(self, step: int) -> None:
        """Remove the metrics after `step` and an incomplete last line: a resumed run measures them again."""
        if not self.metrics_path.exists():
            return
        kept = 0
        with self.metrics_path.open("rb") as file, suppress(json.JSONDecodeError):
            for line in file:
                if not line.endswith(b"\n") or json.loads(line)["step"] > step:
                    break
                kept += len(line)
        os.truncate(self.metrics_path, kept)  # unlike writing the lines anew, this cannot be interrupted halfway

    def _files(self) -> list[Path]:
        return sorted(self.checkpoints.glob("step-*.safetensors"))
