"""One forward pass as |S| grows with a fixed number of observed transitions, and against the naive dense one.

`python -m benchmarks.planning [--json FILE]`: width 256, K = 24, |A| = 6, 300 observed transitions, one core.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import tyro

from benchmarks.naive import naive_forward, pad_z
from mdpfn.evidence import Statistics, Transition
from mdpfn.network.config import NetworkConfig
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.planning import planner_outputs
from mdpfn.network.tensors import to_numpy

SIZES = (16, 100, 500, 5_000, 50_000)
N_ACTIONS, N_TRANSITIONS, DEPTH = 6, 300, 24


def main(json_file: Annotated[Path | None, tyro.conf.arg(name="json")] = None) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = PolicyNetwork(NetworkConfig(dropout=0.0)).eval()
    used = to_numpy(network)
    histories = {size: random_history(size) for size in SIZES}
    seconds = {
        size: best_of(9, lambda h=h: planner_outputs(used, h.table(), depth=DEPTH)) for size, h in histories.items()
    }
    naive_seconds = best_of(2, lambda: naive_plan(network, histories[500]))
    large = [seconds[size] for size in SIZES if size >= 500]
    figures = {
        "seconds": {str(size): value for size, value in seconds.items()},
        "flatness": max(large) / min(large),
        "naive_seconds_500": naive_seconds,
        "speedup_500": naive_seconds / seconds[500],
    }
    print(f"{'|S|':>8} {'ms':>8}")
    for size, value in seconds.items():
        print(f"{size:8d} {1e3 * value:8.1f}")
    print(f"slowest / fastest from 500 on: {figures['flatness']:.2f}")
    print(f"naive dense at 500: {1e3 * naive_seconds:.0f} ms, {figures['speedup_500']:.0f} times slower")
    if json_file:
        json_file.write_text(json.dumps(figures, indent=2) + "\n")


def random_history(n_states: int) -> Statistics:
    """300 transitions of a random walk that mostly moves to near states."""
    rng = np.random.default_rng(0)
    history = Statistics(n_states, N_ACTIONS)
    state = 0
    for _ in range(N_TRANSITIONS):
        action = int(rng.integers(N_ACTIONS))
        following = (state + action - 2 + int(rng.random() < 0.2)) % n_states
        history.add(Transition(state, action, float(rng.random() < 0.1), following))
        state = following
    return history


def naive_plan(network: PolicyNetwork, history: Statistics) -> None:
    z = torch.from_numpy(history.table().dense_z()).float()
    with torch.inference_mode():
        naive_forward(network, *pad_z([z], [N_ACTIONS], history.n_states, N_ACTIONS), DEPTH)


def best_of(repetitions: int, run: Callable[[], object]) -> float:
    """The fastest of some runs, in seconds: what else the machine does only ever adds."""
    times = []
    for _ in range(repetitions + 1):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times[1:])


if __name__ == "__main__":
    tyro.cli(main)
