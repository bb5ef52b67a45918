"""What a person watching a training run sees: a bar, and TensorBoard where it is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from mdpfn.training.config import TrainingConfig

SMOOTHING = 0.95  # of the numbers shown: single batches are noisy


class Progress:
    """A bar with smoothed loss and KL, MDPs per second and the time left."""

    def __init__(self, directory: Path, config: TrainingConfig, enabled: bool) -> None:
        self._config, self._enabled = config, enabled
        self._smooth: dict[str, float] = {}
        self._bar = RichProgress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.4f}  KL {task.fields[kl]:.4f}  {task.fields[rate]:.0f} MDPs/s  left"),
            TimeRemainingColumn(),
            disable=not enabled,
        )
        self._task = self._bar.add_task("training", total=config.steps, loss=0.0, kl=0.0, rate=0.0)
        self._board: Any = None
        if enabled and importlib.util.find_spec("tensorboard"):
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(directory / "tensorboard"))

    def update(self, step: int, progress: float, metrics: dict[str, float]) -> None:
        """Show the state after `step` steps, `progress` of the schedule."""
        for name, value in metrics.items():
            self._smooth[name] = SMOOTHING * self._smooth.get(name, value) + (1 - SMOOTHING) * value
            if self._board is not None:
                self._board.add_scalar(name, value, step)
        speed = self._bar.tasks[0].speed or 0.0
        total = max(round(step / progress), step) if progress else self._config.steps
        rate, loss, kl = speed * self._config.batch_size, self._smooth["loss"], self._smooth["kl"]
        self._bar.update(self._task, completed=step, total=total, rate=rate, loss=loss, kl=kl)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        if self._board is not None:
            self._board.close()
