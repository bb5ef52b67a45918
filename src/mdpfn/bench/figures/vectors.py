"""The table of environments with vectors: returns of policies after few episodes, and what was earned by then."""

import numpy as np

from mdpfn.bench.figures.data import Row, group
from mdpfn.bench.figures.table import Table


def vectors(rows: list[Row]) -> Table:
    """Mean return of every agent in every environment, by episodes lived, and what it earned in all of them."""
    episodes = sorted({int(row["episodes"]) for row in rows})
    body = []
    for (environment, agent), lives in sorted(group(rows, "environment", "agent").items()):
        after = group(lives, "episodes")
        returns = [_mean(after.get((str(n),), []), "return") for n in episodes]
        seeds = len({row["seed"] for row in lives})
        body.append([environment, agent, str(seeds), *returns, _mean(after[(str(episodes[-1]),)], "earned")])
    note = (
        "Mean over seeds of the mean return of ten fresh episodes by the policy of `predict`, after so many episodes; "
        "earned: mean return of all episodes while learning. One set of constants for all environments."
    )
    headers = ["environment", "agent", "seeds", *map(str, episodes), "earned"]
    return Table("Environments with vectors", headers, body, note)


def _mean(rows: list[Row], column: str) -> str:
    return f"{np.mean([float(row[column]) for row in rows]):.4g}" if rows else "–"
