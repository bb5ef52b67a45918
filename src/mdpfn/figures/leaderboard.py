"""What the heat map, the curves and the table of the leaderboard share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpfn.arrays import Floats, Ints
from mdpfn.figures.data import Row, group, label


@dataclass(frozen=True)
class Scores:
    """Scores clipped to 0..1, by agent, the best on average first."""

    environments: list[str]
    episodes: Ints
    agents: dict[str, Floats]  # label -> (environments, seeds, episodes)

    @classmethod
    def of(cls, rows: list[Row]) -> Scores:
        """The scores of all agents that were measured on all environments; means of others would not compare."""
        environments = sorted({row["environment"] for row in rows})
        episodes = sorted({int(row["episodes"]) for row in rows})
        tables = {
            label(*name): _table(of_agent, environments, episodes)
            for name, of_agent in group(rows, "agent", "weights").items()
        }
        complete = {name: table for name, table in tables.items() if not np.isnan(table).any()}
        ranked = sorted(complete, key=lambda name: -complete[name].mean())
        return cls(environments, np.array(episodes), {name: complete[name] for name in ranked})


def _table(rows: list[Row], environments: list[str], episodes: list[int]) -> Floats:
    n_seeds = 1 + max(int(row["seed"]) for row in rows)
    table = np.full((len(environments), n_seeds, len(episodes)), np.nan)
    for row in rows:
        at = environments.index(row["environment"]), int(row["seed"]), episodes.index(int(row["episodes"]))
        table[at] = float(row["score"])
    return table.clip(0, 1)
