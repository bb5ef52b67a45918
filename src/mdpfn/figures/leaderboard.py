"""What the heat map, the curves and the tables of the leaderboards share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpfn.arrays import Floats, Ints
from mdpfn.figures.data import Row, group, label


@dataclass(frozen=True)
class Scores:
    """Scores by agent, the best on average first: means over seeds, clipped to 0..1 for every environment."""

    environments: list[str]
    x: Ints  # episodes, or transitions in the data set
    agents: dict[str, Floats]  # label -> (environments, x)
    spread: dict[str, Floats]  # label -> (x,) standard deviation between seeds of the mean over environments
    n_seeds: int
    incomplete: tuple[str, ...]  # labels of agents that lack some environment or seed: their means would not compare

    @property
    def left_out(self) -> str:
        """A sentence about agents that are not among the others."""
        return f" Left out, as not all was measured: {', '.join(self.incomplete)}." if self.incomplete else ""

    @classmethod
    def of(cls, rows: list[Row], x: str = "episodes") -> Scores:
        """The scores of all agents that were measured on all environments."""
        environments = sorted({row["environment"] for row in rows})
        xs = sorted({int(row[x]) for row in rows})
        agents, spread, n_seeds, incomplete = {}, {}, [], []
        for name, of_agent in group(rows, "agent", "weights").items():
            table = _table(of_agent, environments, x, xs)
            if np.isnan(table).any():
                incomplete.append(label(*name))
            else:
                agents[label(*name)] = table.mean(axis=1).clip(0, 1)
                spread[label(*name)] = table.clip(0, 1).mean(axis=0).std(axis=0)
                n_seeds.append(table.shape[1])
        ranked = sorted(agents, key=lambda name: -agents[name].mean())
        agents = {name: agents[name] for name in ranked}
        return cls(environments, np.array(xs), agents, spread, min(n_seeds, default=0), tuple(incomplete))


def _table(rows: list[Row], environments: list[str], x: str, xs: list[int]) -> Floats:
    """(environments, seeds, x) scores, NaN where there is none."""
    n_seeds = 1 + max(int(row["seed"]) for row in rows)
    table = np.full((len(environments), n_seeds, len(xs)), np.nan)
    for row in rows:
        table[environments.index(row["environment"]), int(row["seed"]), xs.index(int(row[x]))] = float(row["score"])
    return table
