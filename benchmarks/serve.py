"""How many requests a second `mdpfn serve` answers: /predict beside an endpoint that does nothing, in one run.

Both are asked by turns that are short, over the same connections: what else the machine does falls on both alike.

python -m benchmarks.serve --json results/benchmark_serve.json
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from mdpfn import Agent

CLIENTS = 8  # connections that stay open, each with one request under way
TURNS, SECONDS = 100, 0.1  # of each endpoint, and how long one is


def request(path: str, content: Any) -> bytes:
    body = json.dumps(content).encode()
    head = [
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


class Client(threading.Thread):
    """One connection, over which requests follow each other, of another kind in every turn."""

    def __init__(self, port: int, turns: list[tuple[str, bytes]], begin: float) -> None:
        super().__init__()
        self.port, self.turns, self.begin = port, turns, begin
        self.times: dict[str, list[float]] = {name: [] for name, _ in turns}
        self.failures: list[str] = []

    def run(self) -> None:
        """Ask until all turns are over, or the connection is closed."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            for number, (name, data) in enumerate(self.turns, 1):
                while (begun := time.perf_counter()) < self.begin + number * SECONDS:
                    answer = answered(connection, data)
                    self.times[name].append(time.perf_counter() - begun)
                    if not answer.startswith(b"HTTP/1.1 200"):
                        self.failures.append(answer[:40].decode())
                        if not answer:
                            return


def answered(connection: socket.socket, data: bytes) -> bytes:
    """What is answered to a request; nothing if the connection was closed before that."""
    connection.sendall(data)
    answer = b""
    while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
        piece = connection.recv(65536)
        if not piece:
            return b""
        answer += piece
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.safetensors"
        agent = Agent.from_pretrained()
        agent.solve(gym.make("FrozenLake-v1", map_name="8x8"), 30, seed=0)
        agent.save(path)
        command = [sys.executable, "-m", "mdpfn", "serve", str(path), "--rate", "1e9"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        found = re.search(r":(\d+)/", server.stdout.readline())
        assert found
        try:
            report = compare(int(found.group(1)))
        finally:
            server.terminate()
            server.wait()
    print(json.dumps(report, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


def compare(port: int) -> dict[str, Any]:
    empty, predict = (
        ("empty", request("/health", {"observation": 9})),
        ("predict", request("/predict", {"observation": 9})),
    )
    with socket.create_connection(("127.0.0.1", port)) as connection:
        answered(connection, predict[1])  # the first plan is made once
    turns = [empty, predict, predict, empty] * (TURNS // 2)  # so that neither is always the one after the other
    begin = time.perf_counter() + 0.1
    clients = [Client(port, turns, begin) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    times = {name: np.concatenate([client.times[name] for client in clients]) for name in ("empty", "predict")}
    rates = {name: len(took) / (TURNS * SECONDS) for name, took in times.items()}
    p50, p99 = np.percentile(times["predict"], [50, 99]) * 1000
    return {
        "command": "python -m benchmarks.serve",
        "clients": CLIENTS,
        "empty_per_second": round(rates["empty"]),
        "predict_per_second": round(rates["predict"]),
        "ratio": round(rates["predict"] / rates["empty"], 3),
        "requests": sum(map(len, times.values())),
        "failures": sum(len(client.failures) for client in clients),
        "predict_p50_ms": round(p50, 2),
        "predict_p99_ms": round(p99, 2),
    }


if __name__ == "__main__":
    main()
