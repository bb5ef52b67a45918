"""How many requests a second `mdpfn serve` answers: /predict beside an endpoint that does nothing, in one run.

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
ROUNDS, SECONDS = 5, 1.0  # of each endpoint, by turns


def request(path: str, content: Any) -> bytes:
    body = json.dumps(content).encode()
    head = [
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


def ask(port: int, data: bytes, until: float, times: list[float], failures: list[str]) -> None:
    """Send the same request again and again over one connection."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while time.perf_counter() < until:
            begun = time.perf_counter()
            connection.sendall(data)
            answer = b""
            while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
                piece = connection.recv(65536)
                if not piece:
                    failures.append("closed")
                    return
                answer += piece
            if not answer.startswith(b"HTTP/1.1 200"):
                failures.append(answer[:40].decode())
            times.append(time.perf_counter() - begun)


def measured(port: int, data: bytes) -> tuple[float, list[float], list[str]]:
    """Requests a second, how long each took, and what failed."""
    times: list[float] = []
    failures: list[str] = []
    begun = time.perf_counter()
    arguments = (port, data, begun + SECONDS, times, failures)
    clients = [threading.Thread(target=ask, args=arguments) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return len(times) / (time.perf_counter() - begun), times, failures


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
    asked = {"empty": request("/health", {"observation": 9}), "predict": request("/predict", {"observation": 9})}
    rates: dict[str, list[float]] = {name: [] for name in asked}
    times: list[float] = []
    failures: list[str] = []
    measured(port, asked["predict"])  # the first plan is made once
    for _ in range(ROUNDS):
        for name, data in asked.items():
            rate, took, failed = measured(port, data)
            rates[name].append(rate)
            failures += failed
            times += took if name == "predict" else []
    best = {name: max(values) for name, values in rates.items()}
    p50, p99 = np.percentile(times, [50, 99]) * 1000
    return {
        "command": "python -m benchmarks.serve",
        "clients": CLIENTS,
        "empty_per_second": round(best["empty"]),
        "predict_per_second": round(best["predict"]),
        "ratio": round(best["predict"] / best["empty"], 3),
        "requests": len(times),
        "failures": len(failures),
        "predict_p50_ms": round(p50, 2),
        "predict_p99_ms": round(p99, 2),
    }


if __name__ == "__main__":
    main()
