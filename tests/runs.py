"""Very small training runs, and what they leave behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mdpfn.network.config import NetworkConfig
from mdpfn.prior.paper import PriorConfig
from mdpfn.storage import read_bundle
from mdpfn.training.checkpoint import RunDirectory
from mdpfn.training.config import TrainingConfig

SMALL = TrainingConfig(
    network=NetworkConfig(width=8, n_heads=2, depth=3, dropout=0.2),
    prior=PriorConfig(discount=0.5, n_states=(2, 5), n_actions=(2, 3)),
    batch_size=4,
    steps=6,
    learning_rate=1e-2,
    warmup_steps=3,
    average_decay=0.9,
    min_depth=1,
    validation_mdps=4,
    validate_every=2,
    checkpoint_every=4,
)
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
TRAIN = [sys.executable, "-m", "mdpfn", "train"]


def write_config(path: Path, **changes: Any) -> Path:
    """`SMALL` with changes, as a file."""
    path.write_text(json.dumps(replace(SMALL, **changes).to_dict()))
    return path


def final_state(run: Path) -> dict[str, torch.Tensor]:
    """All tensors of the newest checkpoint of a run."""
    checkpoint = RunDirectory(run).newest()
    assert checkpoint is not None
    return checkpoint.tensors


def metrics_of(run: Path) -> list[dict[str, float]]:
    """All that a run measured, without the time it took."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def model_of(run: Path) -> dict[str, np.ndarray]:
    """All weights of the model that a run left."""
    return read_bundle(run / "model.safetensors")[0]


def identical(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether tensors or arrays agree bit by bit."""
    if ours.keys() != theirs.keys():
        return False
    pairs = [(np.asarray(ours[name]), np.asarray(theirs[name])) for name in ours]
    return all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


MANY_PROCESSES = """
import os, signal, sys
from pathlib import Path
from safetensors.torch import save_file
from mdpfn.training import loop
from mdpfn.training.config import load_config

config, run, stop = load_config(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
whole_step = loop.Trainer.step_once

def step_once(self, forward):
    metrics = whole_step(self, forward)
    if self.step == stop and self.rank == 1:
        signal.raise_signal(signal.SIGTERM)
    return metrics

loop.Trainer.step_once = step_once
trainer = loop.train(config, run, resume="auto")
threads = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").glob("*")]
assert not [name for name in threads if "gloo" in name], threads  # they may abort an interpreter that ends
save_file(trainer.network.state_dict(), run / f"rank-{trainer.rank}-step-{trainer.step}.safetensors")
"""


def train_together(config: Path, run: Path, stop: int) -> subprocess.CompletedProcess[str]:
    """A training of two processes, of which the second gets a signal to stop after step `stop`."""
    script = run.with_suffix(".py")
    script.write_text(MANY_PROCESSES)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    command = [*launch, script, config, run, str(stop)]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
