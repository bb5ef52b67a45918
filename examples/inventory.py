"""How much to order: a plan from a shop's log alone, no environment needed.

The log is a CSV with a row per day, written by a manager who orders more or less by feeling. The agent reads it and
tells what to order at which stock, and where the log is too thin to tell.

Run it with `python examples/inventory.py`.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mdpfn import Agent

SHELF, ORDERS = 8, (0, 2, 4)
PRICE, COST, FEE, STORAGE, DEMAND = 4.0, 2.0, 1.0, 0.3, 2.0


def one_day(stock: int, order: int, rng: np.random.Generator) -> tuple[float, int]:
    """The profit of a day, and the stock in the evening."""
    available = min(stock + order, SHELF)
    sold = min(available, int(rng.poisson(DEMAND)))
    left = available - sold
    return PRICE * sold - COST * (available - stock) - FEE * (order > 0) - STORAGE * left, left


def daily_profit(decide: Callable[[int], int], days: int = 5_000) -> float:
    """What a rule for orders earns per day."""
    rng = np.random.default_rng(1)
    stock, total = 0, 0.0
    for _ in range(days):
        profit, stock = one_day(stock, decide(stock), rng)
        total += profit
    return total / days


def write_log(path: Path, days: int) -> None:
    """The manager's log: orders are likelier when the stock is low."""
    rng = np.random.default_rng(0)
    stock = 0
    with path.open("w", newline="") as file:
        log = csv.writer(file)
        log.writerow(["day", "stock", "order", "profit", "evening stock"])
        for day in range(days):
            order = by_feeling(stock, rng)
            profit, left = one_day(stock, order, rng)
            log.writerow([day, stock, order, round(profit, 2), left])
            stock = left


def by_feeling(stock: int, rng: np.random.Generator) -> int:
    return int(rng.choice(ORDERS, p=[0.2, 0.4, 0.4] if stock < SHELF / 2 else [0.6, 0.2, 0.2]))


def main(days: int = 1_000) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "log.csv"
        write_log(path, days)
        columns = {"state": "stock", "action": "order", "reward": "profit", "next_state": "evening stock"}
        agent = Agent.from_pretrained().fit(
            path, columns=columns, observation_space=SHELF + 1, action_space=list(ORDERS)
        )
    print(agent.result)
    for stock in range(SHELF + 1):
        print(f"stock {stock}: order {agent.predict(stock)[0]}")
    rng = np.random.default_rng(2)
    before, after = (
        daily_profit(lambda stock: by_feeling(stock, rng)),
        daily_profit(lambda stock: agent.predict(stock)[0]),
    )
    print(f"profit per day: {before:.2f} by feeling, {after:.2f} as planned from {days} days of the log")
    return before, after


if __name__ == "__main__":
    main()
