"""Training throughput against a naive padded implementation of the same, in one run on all cores.

`python -m benchmarks.training [--json FILE]`: a step is sampling, targets, forward, backward and update at the
paper's settings (width 256, 8 heads, K = 20, batch 128, dropout 0.05). Ours runs as single-threaded processes under
torchrun, one per core, exactly as `mdpfn train` does; the naive one gets all cores as threads, and multiplies in
float32. `matmul_fraction` is of the rate in float32, too. Of both the fastest step counts: what else the machine
does only ever adds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import tyro
from rich.console import Console

from benchmarks.naive import naive_forward, pad_z
from mdpfn.model.mdp import MDPBatch
from mdpfn.network.network import PolicyNetwork
from mdpfn.prior.paper import sample_mdp
from mdpfn.training.batches import sample_examples, step_rng
from mdpfn.training.config import CONFIGS
from mdpfn.training.loop import Trainer
from mdpfn.training.machine import fast_products, keep_freed_memory
from mdpfn.training.visits import explore, sample_budget

CONFIG = CONFIGS["paper"]
MAX_STATES, MAX_ACTIONS = CONFIG.prior.n_states[1], CONFIG.prior.n_actions[1]
WARMUP, STEPS, NAIVE_STEPS = 3, 20, 3


def main(json_file: Annotated[Path | None, tyro.conf.arg(name="json")] = None, worker: bool = False) -> None:
    if worker:
        run_worker()
        return
    console = Console(stderr=True)
    cores = len(os.sched_getaffinity(0))
    with console.status("this library, one process per core"):
        seconds = float(launch(cores))
    with console.status("naive padded implementation (slow: most of a minute)"), fast_products():  # for everybody
        naive_seconds = measure_naive()
        peak = matmul_rate()
    figures = {
        "mdps_per_second": CONFIG.batch_size / seconds,
        "naive_mdps_per_second": CONFIG.batch_size / naive_seconds,
        "speedup": naive_seconds / seconds,
        "matmul_fraction": step_flops() / seconds / peak,
        "seconds_per_step": seconds,
        "naive_seconds_per_step": naive_seconds,
        "matmul_gflops": peak / 1e9,
        "cores": cores,
    }
    for name, value in figures.items():
        print(f"{name:24s} {value:10.3f}")
    if json_file:
        json_file.write_text(json.dumps(figures, indent=2) + "\n")


def launch(processes: int) -> str:
    """Seconds per step of `processes` workers, as the first of them printed it."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    result = subprocess.run(
        [*command, "-m", "benchmarks.training", "--worker"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.strip().splitlines()[-1]


def run_worker() -> None:
    """One training process: the real loop's steps, timed."""
    torch.distributed.init_process_group("gloo")
    keep_freed_memory()
    with fast_products(), tempfile.TemporaryDirectory() as directory:
        trainer = Trainer(CONFIG, Path(directory))
        network = torch.nn.parallel.DistributedDataParallel(trainer.network)
        times = []
        for _ in range(WARMUP + STEPS):
            torch.distributed.barrier()
            began = time.perf_counter()
            trainer.step_once(network)
            torch.distributed.barrier()
            times.append(time.perf_counter() - began)
        if trainer.rank == 0:
            print(min(times[WARMUP:]))
    torch.distributed.destroy_process_group()


def measure_naive() -> float:
    """Seconds per step of the padded implementation."""
    network = PolicyNetwork(CONFIG.network)
    optimizer = torch.optim.AdamW(network.parameters(), lr=CONFIG.learning_rate)
    times = []
    for step in range(1 + NAIVE_STEPS):
        began = time.perf_counter()
        naive_step(network, optimizer, step_rng(CONFIG, step, 0))
        times.append(time.perf_counter() - began)
    return min(times[1:])


def naive_step(network: PolicyNetwork, optimizer: torch.optim.Optimizer, rng: np.random.Generator) -> None:
    mdps = [sample_mdp(rng, CONFIG.prior) for _ in range(CONFIG.batch_size)]
    batch = MDPBatch.of(mdps)
    statistics = explore(rng, batch, sample_budget(rng, len(mdps), *CONFIG.budget))
    dense = [torch.from_numpy(statistics.dense_z(i)).float() for i in range(len(mdps))]
    z, state_mask, action_mask = pad_z(dense, batch.n_actions.tolist(), MAX_STATES, MAX_ACTIONS)

    transition = torch.zeros(len(mdps), MAX_STATES, MAX_ACTIONS, MAX_STATES)
    reward = torch.zeros(len(mdps), MAX_STATES, MAX_ACTIONS)
    for i, mdp in enumerate(mdps):
        transition[i, : mdp.n_states, : mdp.n_actions, : mdp.n_states] = torch.from_numpy(mdp.dense_transition).float()
        reward[i, : mdp.n_states, : mdp.n_actions] = torch.from_numpy(mdp.reward).float()
    q = torch.zeros_like(reward)
    for _ in range(500):
        value = q.masked_fill(~action_mask[:, None, :], -torch.inf).amax(-1) * state_mask
        q = reward + CONFIG.prior.discount * torch.einsum("bsan,bn->bsa", transition, value)
    scale = torch.from_numpy(batch.reward_scale).float()[:, None, None]
    masked = (~action_mask[:, None, :]).expand_as(q)
    target = (q / scale / CONFIG.target_temperature).masked_fill(masked, -1e9).softmax(-1)

    logits = naive_forward(network, z, state_mask, action_mask, CONFIG.network.depth)
    cross_entropy = -(target * logits.log_softmax(-1)).sum(-1)
    loss = (cross_entropy * state_mask).sum() / state_mask.sum()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), CONFIG.gradient_clip)
    optimizer.step()


def step_flops() -> float:
    """Multiply-adds × 2 of the products of (rows, d) with (d, d) that our step runs: forward once, backward twice."""
    once = in_every_step = 0.0
    for step in range(8):
        tokens = sample_examples(step_rng(CONFIG, step, 0), CONFIG, CONFIG.batch_size).tokens
        pairs, states = len(tokens.pair_features), len(tokens.state_mdp)
        attending = pairs - len(tokens.single_successor)
        single = len(np.unique(tokens.single_successor))
        once += (4 * pairs + attending + 3 * states) / 8  # encoder, first states, constants, head
        in_every_step += (2 * pairs + 2 * attending + 5 * states + single) / 8
    return 2 * 3 * (once + CONFIG.network.depth * in_every_step) * CONFIG.network.width**2


def matmul_rate(width: int = CONFIG.network.width, rows: int = 2048) -> float:
    """FLOP/s of the machine in matrix products of the network's shape, on all cores."""
    x, w = torch.randn(rows, width), torch.randn(width, width)
    best = 0.0
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(40):
            x @ w
        best = max(best, 40 * 2 * rows * width * width / (time.perf_counter() - began))
    return best


if __name__ == "__main__":
    tyro.cli(main)
