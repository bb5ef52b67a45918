"""The training run: sample, step, measure, checkpoint, in one process or many."""

import copy
import gc
import os
import signal
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import torch
import torch._dynamo  # before any process group: functions in it take the group of then as a default, and keep it
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from mdpfn.errors import MdpfnError
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.tensors import to_numpy, to_torch
from mdpfn.training.batches import shared_rng, step_rng
from mdpfn.training.checkpoint import Checkpoint, RunDirectory
from mdpfn.training.commit import commit
from mdpfn.training.config import TrainingConfig, from_dict
from mdpfn.training.machine import fast_products, keep_freed_memory, supported
from mdpfn.training.optimization import (
    learning_rate_factor,
    make_optimizers,
    moving_average,
    optimizer_tensors,
    restore_optimizers,
)
from mdpfn.training.progress import Progress
from mdpfn.training.sources import Metrics, make_source
from mdpfn.version import __version__
from mdpfn.weights import load_model, save_model

FIRST_SNAPSHOT = 64  # models are kept after this many steps and at every doubling


class Trainer:
    """A run and its state. `run` trains until the end, a signal, or the end of its time."""

    def __init__(self, config: TrainingConfig, directory: Path, minutes: float | None = None) -> None:
        self.config, self.minutes = config, minutes
        self.rank, self.world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        if config.batch_size % self.world_size:
            limit = f"it must be divisible by the {self.world_size} processes"
            raise MdpfnError("batch_size", config.batch_size, limit, "change one of them")
        if minutes is not None and not 0 < minutes < float("inf"):
            raise MdpfnError("minutes", minutes, "it must be positive and finite", "give the time to train for")
        torch.manual_seed(config.seed)
        self.network = PolicyNetwork(config.network).to(_device())
        self.network.rounding = supported(config.rounding)
        if config.start_from is not None:
            self.network.load_state_dict(_starting_network(config).state_dict())
        self.optimizers = make_optimizers(self.network, config)
        self.average = moving_average(self.network, config.average_decay) if config.average_decay else None
        self.source = make_source(config, config.batch_size // self.world_size, self.rank)
        self.step, self.seconds = 0, 0.0
        self.directory = RunDirectory(directory)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Take over the state of a checkpoint of the same run."""
        saved = from_dict(TrainingConfig, checkpoint.description["config"])
        for field in fields(saved):
            ours, began = getattr(self.config, field.name), getattr(saved, field.name)
            if field.name != "steps" and ours != began:
                raise MdpfnError(field.name, ours, f"the run began with {began}", "use its value or another directory")
        if self.minutes is None and self.config.steps != saved.steps and self.config.steps <= checkpoint.step:
            limit = f"the run is at step {checkpoint.step} of {saved.steps}, in the middle of its schedule"
            raise MdpfnError("steps", self.config.steps, limit, "give more steps than that, or use its snapshots")
        if checkpoint.description["version"] != __version__:
            text = f"this run began with version {checkpoint.description['version']} and goes on with {__version__}"
            warnings.warn(f"{text}: it may not be what either would have made of it", UserWarning, stacklevel=3)
        if (self.minutes is None) != (checkpoint.description["minutes"] is None):
            limit = f"the run began with {checkpoint.description['minutes']}"
            raise MdpfnError("minutes", self.minutes, limit, "limit it by time or by steps as then")
        parts: defaultdict[str, dict[str, torch.Tensor]] = defaultdict(dict)
        for name, tensor in checkpoint.tensors.items():
            part, rest = name.split(".", 1)
            parts[part][rest] = tensor
        if any(part.startswith("source") for part in parts):
            n_sources = sum(part.startswith("source") for part in parts)
            if n_sources != self.world_size:
                limit = f"the run began with {n_sources}"
                raise MdpfnError("the number of processes", self.world_size, limit, "start as many again")
            self.source.restore(parts[f"source{self.rank}"])
        self.network.load_state_dict(parts["network"])
        restore_optimizers(self.optimizers, parts["optimizer"])
        if self.average is not None:
            self.average.module.load_state_dict(parts["average"])
            self.average.n_averaged.fill_(checkpoint.step + 1)
        self.step, self.seconds = checkpoint.step, checkpoint.description["seconds"]

    def run(self) -> None:
        """Train to the end of the schedule; on SIGTERM or SIGINT checkpoint and return."""
        if self._largest(self.step) != [self.step]:
            limit = "every process must find the same checkpoint in it"
            raise MdpfnError("the run directory", repr(str(self.directory.path)), limit, "use one that all hosts share")
        if self.rank == 0:
            self.directory.truncate_metrics(self.step)
        forward: torch.nn.Module = DistributedDataParallel(self.network) if self.world_size > 1 else self.network
        began = time.monotonic() - self.seconds
        progress = Progress(self.directory.path, self.config, enabled=self.rank == 0)
        with progress, _stop_on_signal() as stopped:
            while self.progress < 1:
                metrics = self.step_once(forward)
                self.seconds, stop = self._largest(time.monotonic() - began, stopped())
                done = self.progress >= 1
                saving = bool(done or stop or self.step % self.config.checkpoint_every == 0)
                sources = self._gathered_sources() if saving else []
                if self.rank == 0:
                    metrics["seconds"] = round(self.seconds, 2)
                    self.directory.append_metrics(self.step, metrics)
                    if done or self.step % self.config.validate_every == 0:
                        validation = self.source.validate(self.averaged_network())
                        self.directory.append_metrics(self.step, validation)
                        metrics |= validation
                    if saving:
                        self.save(sources)
                    if self.step >= FIRST_SNAPSHOT and self.step.bit_count() == 1:
                        write_model(self, self.directory.snapshots / f"step-{self.step:09d}.safetensors")
                    progress.update(self.step, self.progress, metrics)
                if stop:
                    break

    @property
    def progress(self) -> float:
        """How much of the schedule is done, in steps or in time."""
        return self.step / self.config.steps if self.minutes is None else self.seconds / (60 * self.minutes)

    def step_once(self, forward: torch.nn.Module) -> Metrics:
        """One gradient step on fresh MDPs; what was measured in it."""
        rng = step_rng(self.config, self.step, self.rank)
        torch.manual_seed(int(rng.integers(2**63)))  # dropout
        rate = self.config.learning_rate * learning_rate_factor(self.step, self.progress, self.config)
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
            for group in optimizer.param_groups:
                group["lr"] = rate
        loss, parts = self.source.loss(rng, forward, self._depth(), self.progress)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = float(torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.gradient_clip))
        if not norm < float("inf"):  # checkpoints stay good: this step never enters one
            limit = "training needs finite gradients"
            raise MdpfnError("the gradient norm", f"{norm} in step {self.step}", limit, "lower the learning rate")
        for optimizer in self.optimizers:
            optimizer.step()
        self.step += 1
        if self.average is not None:
            self.average.update_parameters(self.network)
        return {"loss": float(loss.detach()), **parts, "learning_rate": rate, "gradient_norm": norm}

    def _depth(self) -> int:
        """K of this step, the same on every process."""
        low, high = self.config.depths
        return int(shared_rng(self.config, self.step).integers(low, high + 1))

    def averaged_network(self) -> PolicyNetwork:
        """The network to use: with averaged weights where an average is kept."""
        network = self.network if self.average is None else self.average.module
        assert isinstance(network, PolicyNetwork)
        return network

    def _gathered_sources(self) -> list[dict[str, torch.Tensor]]:
        """The state of every process's source, on the first process."""
        mine = self.source.state()
        if self.world_size == 1 or not mine:
            return [mine]
        gathered: list[Any] | None = [None] * self.world_size if self.rank == 0 else None
        dist.gather_object(mine, gathered)
        return gathered or []

    def save(self, sources: list[dict[str, torch.Tensor]]) -> None:
        """Write a checkpoint."""
        tensors = {f"network.{n}": t for n, t in self.network.state_dict().items()}
        tensors |= {f"optimizer.{n}": t for n, t in optimizer_tensors(self.optimizers).items()}
        if self.average is not None:
            tensors |= {f"average.{n}": t for n, t in self.average.module.state_dict().items()}
        for rank, source in enumerate(sources):
            tensors |= {f"source{rank}.{n}": t for n, t in source.items()}
        description: dict[str, Any] = {"version": __version__, "config": self.config.to_dict()}
        description |= {"seconds": self.seconds, "minutes": self.minutes}
        self.directory.save(self.step, tensors, description)

    def _largest(self, *values: float) -> list[float]:
        """The largest of all processes' values, on all of them: processes that differed would drift apart."""
        if self.world_size == 1:
            return list(values)
        shared = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(shared, dist.ReduceOp.MAX)
        return shared.tolist()


def train(
    config: TrainingConfig,
    directory: Path,
    *,
    minutes: float | None = None,
    resume: Literal["auto", "never"] = "never",
    command: str | None = None,
) -> Trainer:
    """Train in `directory` and return the run; one that reached its end leaves its model there (model.safetensors).

    Under torchrun, every process calls this. `command` is for the card of the model.
    """
    keep_freed_memory()
    with _process_group(), fast_products():
        trainer = Trainer(config, directory, minutes)
        with trainer.directory.owned() if trainer.rank == 0 else nullcontext():
            checkpoint = trainer.directory.newest()
            if checkpoint is not None and resume == "never":
                limit, remedy = "it already holds a run", "add --resume auto or choose another"
                raise MdpfnError("the run directory", repr(str(directory)), limit, remedy)
            if checkpoint is not None:
                trainer.restore(checkpoint)
            trainer.run()
            if trainer.rank == 0 and trainer.progress >= 1:
                write_model(trainer, trainer.directory.model, command)
    return trainer


@contextmanager
def _process_group() -> Iterator[None]:
    """Under torchrun, the group of its processes. They leave it together: threads of a group that is left open at exit,
    or whose other end is gone, may abort the interpreter.
    """
    if "WORLD_SIZE" not in os.environ or dist.is_initialized():
        yield
        return
    dist.init_process_group()  # gloo, and nccl for tensors on a GPU
    try:
        yield
        dist.barrier()
    finally:
        dist.destroy_process_group()
        gc.collect()  # what refers to the group in cycles keeps its threads


def write_model(trainer: Trainer, path: Path, command: str | None = None) -> None:
    """The run's network as a model with a card."""
    network = copy.deepcopy(trainer.averaged_network()).eval()
    trainer.source.finish(network)
    card = {
        "version": __version__,
        "training": {
            "command": command,
            "commit": commit(),
            "config": trainer.config.to_dict(),
            "steps": trainer.step,
            "mdps": trainer.step * trainer.config.batch_size,
            "seconds": round(trainer.seconds),
            "processes": trainer.world_size,
            **trainer.source.validate(network),
        },
    }
    save_model(path, to_numpy(network), card)


def _starting_network(config: TrainingConfig) -> PolicyNetwork:
    """The network whose weights a run begins with."""
    network = to_torch(load_model(str(config.start_from)).network)
    ours, theirs = (
        (c.width, c.n_heads, c.inputs, c.quantiles, c.action_pooling) for c in (config.network, network.config)
    )
    if ours != theirs:
        what = "width, heads, inputs, quantiles and action_pooling"
        limit = f"its {what} {theirs} must be those of the configuration, {ours}"
        raise MdpfnError("start_from", repr(config.start_from), limit, "change the configuration")
    return network


def _device() -> torch.device:
    """The GPU of this process, or the CPU where there is none."""
    return torch.device(f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu")


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
