"""The training run: sample, step, measure, checkpoint, in one process or many."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from mdpfn.errors import MdpfnError
from mdpfn.network.network import PolicyNetwork
from mdpfn.training.batches import sample_examples, step_rng, validate, validation_examples
from mdpfn.training.checkpoint import RunDirectory
from mdpfn.training.config import TrainingConfig, from_dict
from mdpfn.training.optimization import (
    MovingAverage,
    learning_rate_factor,
    make_optimizers,
    optimizer_tensors,
    restore_optimizers,
)
from mdpfn.training.progress import Progress
from mdpfn.version import __version__
from mdpfn.weights import save_model

Metrics = dict[str, float]


class Trainer:
    """A run and its state. `run` trains until the end, a signal, or the end of its time."""

    def __init__(self, config: TrainingConfig, directory: Path, minutes: float | None = None) -> None:
        self.config, self.minutes = config, minutes
        self.rank, self.world_size = dist.get_rank() if dist.is_initialized() else 0, _world_size()
        if config.batch_size % self.world_size:
            limit = f"it must be divisible by the {self.world_size} processes"
            raise MdpfnError("batch_size", config.batch_size, limit, "change one of them")
        torch.manual_seed(config.seed)
        self.network = PolicyNetwork(config.network)
        self.optimizers = make_optimizers(self.network, config)
        self.average = MovingAverage(self.network, config.average_decay) if config.average_decay else None
        self.step, self.seconds = 0, 0.0
        self.directory = RunDirectory(directory)
        if self.rank == 0:
            self.directory.acquire()

    def resume(self) -> bool:
        """Go on from the newest checkpoint; False where there is none."""
        checkpoint = self.directory.newest()
        if checkpoint is None:
            return False
        saved = from_dict(TrainingConfig, checkpoint.description["config"])
        if replace(saved, steps=self.config.steps) != self.config:
            limit = "a run goes on with the configuration it began with"
            raise MdpfnError("config", "another than the checkpoint's", limit, "use its config.json or another directory")
        parts: dict[str, dict[str, torch.Tensor]] = {"network": {}, "optimizer": {}, "average": {}}
        for name, tensor in checkpoint.tensors.items():
            part, rest = name.split(".", 1)
            parts[part][rest] = tensor
        self.network.load_state_dict(parts["network"])
        restore_optimizers(self.optimizers, parts["optimizer"])
        if self.average is not None:
            self.average.weights = {n: t.clone() for n, t in parts["average"].items()}
        self.step, self.seconds = checkpoint.step, checkpoint.description["seconds"]
        return True

    def run(self) -> None:
        """Train to the end of the schedule; on SIGTERM or SIGINT checkpoint and return."""
        held_out = validation_examples(self.config) if self.rank == 0 else []
        if self.rank == 0:
            self.directory.truncate_metrics(self.step)
        forward: torch.nn.Module = DistributedDataParallel(self.network) if self.world_size > 1 else self.network
        began = time.monotonic() - self.seconds
        progress = Progress(self.directory.path, self.config, enabled=self.rank == 0)
        with progress, _stop_on_signal() as stopped, self._metrics_file() as write:
            while self.progress < 1:
                self.step_once(forward, write)
                self.seconds = self._agree(time.monotonic() - began)
                stop = self._agree(float(stopped()))
                done = self.progress >= 1
                if self.rank == 0:
                    if done or self.step % self.config.validate_every == 0:
                        write(validate(self.averaged_network(), held_out))
                    if done or stop or self.step % self.config.checkpoint_every == 0:
                        self.save()
                    progress.update(self.step, self.progress, self.last)
                if stop:
                    break

    @property
    def progress(self) -> float:
        """How much of the schedule is done, in steps or in time."""
        return self.step / self.config.steps if self.minutes is None else self.seconds / (60 * self.minutes)

    def step_once(self, forward: torch.nn.Module, write: Callable[[Metrics], None]) -> None:
        """One gradient step on fresh MDPs."""
        rng = step_rng(self.config, self.step, self.rank)
        torch.manual_seed(int(rng.integers(2**63)))  # dropout
        examples = sample_examples(rng, self.config, self.config.batch_size // self.world_size)
        rate = self.config.learning_rate * learning_rate_factor(self.step, self.progress, self.config)
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
            for group in optimizer.param_groups:
                group["lr"] = rate
        loss = examples.loss(forward, self._depth())
        loss.cross_entropy.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.gradient_clip)
        for optimizer in self.optimizers:
            optimizer.step()
        self.step += 1
        if self.average is not None:
            self.average.update(self.network, self.step)
        self.last = {"loss": float(loss.cross_entropy.detach()), "kl": loss.kl}
        write({**self.last, "learning_rate": rate, "gradient_norm": float(norm), "seconds": round(self.seconds, 2)})

    def _depth(self) -> int:
        """K of this step, the same on every process."""
        config = self.config
        if config.min_depth is None:
            return config.network.depth
        return int(np.random.default_rng([config.seed, self.step]).integers(config.min_depth, config.network.depth + 1))

    def averaged_network(self) -> PolicyNetwork:
        """The network to use: with averaged weights where an average is kept."""
        if self.average is None:
            return self.network
        network = PolicyNetwork(self.config.network)
        network.load_state_dict(self.average.weights)
        return network

    def save(self) -> None:
        """Write a checkpoint."""
        tensors = {f"network.{n}": t for n, t in self.network.state_dict().items()}
        tensors |= {f"optimizer.{n}": t for n, t in optimizer_tensors(self.optimizers).items()}
        if self.average is not None:
            tensors |= {f"average.{n}": t for n, t in self.average.weights.items()}
        description = {"version": __version__, "seconds": self.seconds, "config": self.config.to_dict()}
        self.directory.save(self.step, tensors, description)

    @contextmanager
    def _metrics_file(self) -> Iterator[Callable[[Metrics], None]]:
        """A function that appends a line to metrics.jsonl; other processes than the first write nothing."""
        if self.rank != 0:
            yield lambda values: None
            return
        with self.directory.metrics_path.open("a", buffering=1, encoding="utf-8") as file:
            yield lambda values: print(json.dumps({"step": self.step, **values}), file=file)

    def _agree(self, value: float) -> float:
        """The first process's value, on all: processes that differed in it would drift apart."""
        if self.world_size == 1:
            return value
        shared = torch.tensor(value, dtype=torch.float64)
        dist.broadcast(shared, src=0)
        return float(shared)


def train(
    config: TrainingConfig, directory: Path, *, minutes: float | None = None, resume: Literal["auto", "never"] = "never"
) -> Trainer:
    """Train in `directory` and return the finished run. Under torchrun, every process calls this."""
    if "WORLD_SIZE" in os.environ and not dist.is_initialized():
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    trainer = Trainer(config, directory, minutes)
    found = trainer.directory.newest() is not None
    if found and resume == "never":
        limit = "it already holds a run"
        raise MdpfnError("the run directory", repr(str(directory)), limit, "add --resume auto or choose another")
    if found:
        trainer.resume()
    trainer.run()
    return trainer


def write_model(trainer: Trainer, directory: Path) -> None:
    """The run's network as a model with a card."""
    network = trainer.averaged_network()
    card = {
        "version": __version__,
        "training": {
            "config": trainer.config.to_dict(),
            "steps": trainer.step,
            "mdps": trainer.step * trainer.config.batch_size,
            "minutes": round(trainer.seconds / 60, 1),
            "processes": trainer.world_size,
            **validate(network, validation_examples(trainer.config)),
        },
    }
    save_model(directory, network, card)


def _world_size() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


@contextmanager
def _stop_on_signal() -> Iterator[Callable[[], bool]]:
    """A function that tells whether SIGTERM or SIGINT has arrived; a second SIGINT interrupts at once."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before: dict[int, Any] = {}
    with suppress(ValueError):  # only the main thread may set handlers
        before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
