"""A customer journey, from the log to a decision: what to do with customers, by what was done so far.

The log has a row per customer and week: where the customer stood, what was done, what came of it. What followed is
the next row of the same customer; who left is seen no more. This script writes such a log first.

Run it with `python examples/customer_journey.py`.
"""

from __future__ import annotations

import csv
import random
import tempfile
from pathlib import Path

from mdpfn import Agent

PLACES = ["new", "active", "loyal", "at risk"]
ACTIONS = ["nothing", "mail", "discount"]
COST = {"nothing": 0.0, "mail": 0.5, "discount": 6.0}
MARGIN = {"new": 4.0, "active": 10.0, "loyal": 14.0, "at risk": 2.0}


def one_week(place: str, action: str, chance: random.Random) -> tuple[float, str | None]:
    """What a customer brings in a week, and where the customer stands after it; None is gone."""
    luck = chance.random()
    if place == "at risk":
        stays = {"nothing": 0.2, "mail": 0.3, "discount": 0.75}[action]
        following = "active" if luck < stays else None
    elif place == "new":
        following = "active" if luck < (0.7 if action == "mail" else 0.5) else "at risk"
    else:
        up = "loyal" if luck > 0.7 else place
        following = "at risk" if luck < (0.1 if place == "loyal" else 0.2) else up
    return MARGIN[place] - COST[action], following


def write_log(path: Path, customers: int = 400, weeks: int = 60, seed: int = 0) -> int:
    """Write what happened to customers who were treated by chance; returns the number of rows."""
    chance = random.Random(seed)
    rows = []
    for customer in range(customers):
        place: str | None = "new"
        for week in range(weeks):
            if place is None:
                break
            action = chance.choice(ACTIONS)
            profit, following = one_week(place, action, chance)
            rows.append([customer, week, place, action, profit])
            place = following
    chance.shuffle(rows)  # a log need not be sorted
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["customer", "week", "place", "action", "profit"])
        writer.writerows(rows)
    return len(rows)


def profit_of(policy: dict[str, str], customers: int = 2000, seed: int = 1) -> float:
    """The mean profit of a customer who is treated by a policy, over 60 weeks."""
    chance = random.Random(seed)
    total = 0.0
    for _ in range(customers):
        place: str | None = "new"
        for _ in range(60):
            if place is None:
                break
            profit, place = one_week(place, policy.get(place) or chance.choice(ACTIONS), chance)
            total += profit
    return total / customers


def main() -> tuple[float, float]:
    """Fit the log, print what to do, and return the profit by chance and by the plan."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "journeys.csv"
        print(f"{write_log(log)} rows in the log")
        columns = {"episode": "customer", "time": "week", "state": "place", "reward": "profit"}
        agent = Agent.from_pretrained().fit(log, columns=columns)
    print(agent.result)
    policy = {place: agent.predict(place)[0] for place in PLACES}
    for place, action in policy.items():
        print(f"{place:>8}: {action}")
    before, after = profit_of({}), profit_of(policy)
    print(f"a customer brings {before:.0f} if treated by chance and {after:.0f} by the plan")
    return before, after


if __name__ == "__main__":
    main()
