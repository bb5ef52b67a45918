"""When to service a machine: a loop of one's own, with names for states and actions.

A machine wears out day by day, earns less the more it is worn, and stands still when it is broken. Service makes it
a little better, a replacement makes it new. Nobody tells the agent any of these numbers.

Run it with `python examples/maintenance.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from mdpfn import Agent

WEAR = ["new", "good", "worn", "shaky", "failing", "broken"]
ACTIONS = ["run", "service", "replace"]
PROFIT = [10, 9, 8, 5, 2, 0]  # of a day of running
SERVICE_COST, REPLACEMENT_COST, CHANCE_OF_WEAR = 2, 20, 0.4


def one_day(condition: str, action: str, chance: random.Random) -> tuple[float, str]:
    """The profit of a day, and the condition of the machine after it."""
    wear = WEAR.index(condition)
    if action == "service":
        return -SERVICE_COST, WEAR[max(wear - 1, 0)]
    if action == "replace":
        return -REPLACEMENT_COST, "new"
    return PROFIT[wear], WEAR[min(wear + (chance.random() < CHANCE_OF_WEAR), len(WEAR) - 1)]


def daily_profit(decide: Callable[[str], str], days: int = 5_000) -> float:
    """What a rule for the machine earns per day."""
    chance = random.Random(1)
    condition, total = "new", 0.0
    for _ in range(days):
        profit, condition = one_day(condition, decide(condition), chance)
        total += profit
    return total / days


def main(days: int = 1_000) -> tuple[float, float]:
    agent = Agent.from_pretrained()
    agent.reset(WEAR, ACTIONS, replan_every=25, seed=0)  # the machine never ends: plan every 25 days
    chance = random.Random(0)
    condition = "new"
    for _ in range(days):
        action = agent.act(condition)
        profit, after = one_day(condition, action, chance)
        agent.observe(condition, action, profit, after, terminated=False)
        condition = after

    rule = daily_profit(lambda now: "replace" if now == "broken" else "run")
    learned = daily_profit(lambda now: agent.predict(now)[0])
    for state, best in zip(WEAR, agent.plan().greedy, strict=True):
        print(f"{state:>8}: {ACTIONS[best]}")
    print(f"profit per day: {rule:.2f} when run until broken, {learned:.2f} as planned after {days} days")
    return rule, learned


if __name__ == "__main__":
    main()
