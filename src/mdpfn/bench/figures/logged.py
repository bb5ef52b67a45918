"""The table of policies from logs of mediocre behaviour: mean score, and that of the worst tenth."""

from collections.abc import Sequence

import numpy as np

from mdpfn.bench.figures.data import Row, group, label
from mdpfn.bench.figures.table import Table

WORST = 0.1  # share of the scores that count as the worst


def logged(rows: list[Row]) -> Table:
    """Mean score of every agent and, behind a stroke, of its worst tenth, by episodes in the log."""
    episodes = sorted({int(row["episodes"]) for row in rows})
    body = []
    for (agent, weights, options), mine in group(rows, "agent", "weights", "options").items():
        name = label(agent, weights) + (f", {options}" if options else "")
        after = group(mine, "episodes")
        body.append([name, *(_mean_and_worst(after.get((str(n),), [])) for n in episodes)])
    n_logs = len(group(rows, "environment", "behaviour", "seed"))
    note = (
        f"Normalized score of the policy learned from so many episodes of a policy that is 0.3 or 0.6 of the way from "
        f"random to optimal: mean / mean of the worst tenth, over {n_logs} logs of "
        f"{len(group(rows, 'environment'))} environments."
    )
    return Table("From logs of mediocre policies", ["agent", *map(str, episodes)], body, note)


def _mean_and_worst(rows: list[Row]) -> str:
    if not rows:
        return "–"
    scores = [float(row["score"]) for row in rows]
    return f"{np.mean(scores):.3f} / {tail(scores):.2f}"


def tail(scores: Sequence[float]) -> float:
    """The conditional value at risk: the mean of the worst tenth."""
    return float(np.sort(scores)[: max(1, round(WORST * len(scores)))].mean())
