"""Progress of a training run: a line, and TensorBoard where it is installed."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

from mdpfn.progress import Progress as Line
from mdpfn.training.config import TrainingConfig

SMOOTHING = 0.95  # of the numbers shown: single batches are noisy


class Progress:
    """A line with smoothed loss and KL, MDPs per second and the time left."""

    def __init__(self, directory: Path, config: TrainingConfig, enabled: bool) -> None:
        self._config, self._enabled = config, enabled
        self._smooth: dict[str, float] = {}
        self._line: Line | None = None
        self._begun = time.monotonic(), 0  # when, and after which step
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
        if not self._enabled:
            return
        if self._line is None:
            self._line, self._begun = Line("training step", self._config.steps, done=step - 1), (time.monotonic(), step)
        rate = (step - self._begun[1]) * self._config.batch_size / max(time.monotonic() - self._begun[0], 1e-9)
        self._line.total = max(round(step / progress), step) if progress else self._config.steps
        note = f"loss {self._smooth['loss']:.4f} · KL {self._smooth['kl']:.4f} · {rate:.0f} MDPs/s"
        self._line.update(step, note)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._line is not None:
            self._line.close()
        if self._board is not None:
            self._board.close()
