"""Scores of a leaderboard, for its figure and its tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpfn.arrays import Floats, Ints
from mdpfn.bench.figures.data import Row, group, label

BOUNDS = {"score": (0.0, 1.0), "earned": (-1.0, 1.0)}  # what each measure is clipped to in an environment


@dataclass(frozen=True)
class Scores:
    """One measure of all agents, sorted by their means: averaged over seeds and clipped in every environment."""

    environments: list[str]
    x: Ints  # episodes, or transitions in the data set
    agents: dict[str, Floats]  # label -> (environments, x)
    means: dict[str, Floats]  # label -> (environments, x) before they were clipped
    spread: dict[str, Floats]  # label -> (x,) standard error of the mean over environments, by leaving out each seed
    n_seeds: int
    incomplete: tuple[str, ...]  # labels of agents that lack some environment or seed: their means would not compare

    @property
    def left_out(self) -> str:
        """A sentence about agents that are not among the others."""
        return f" Left out, as not all was measured: {', '.join(self.incomplete)}." if self.incomplete else ""

    @classmethod
    def of(cls, rows: list[Row], x: str = "episodes", measure: str = "score") -> Scores:
        """The scores of all agents that were measured on all environments."""
        environments = sorted({row["environment"] for row in rows})
        xs = sorted({int(row[x]) for row in rows})
        agents, means, spread, n_seeds, incomplete = {}, {}, {}, [], []
        for name, of_agent in group(rows, "agent", "weights", "options").items():
            table = _table(of_agent, environments, x, xs, measure)
            if np.isnan(table).any():
                incomplete.append(label(*name))
            else:
                means[label(*name)] = table.mean(axis=1)
                agents[label(*name)] = table.mean(axis=1).clip(*BOUNDS[measure])
                spread[label(*name)] = _standard_error(table, BOUNDS[measure])
                n_seeds.append(table.shape[1])
        ranked = sorted(agents, key=lambda name: -agents[name].mean())
        agents = {name: agents[name] for name in ranked}
        return cls(environments, np.array(xs), agents, means, spread, min(n_seeds, default=0), tuple(incomplete))


def _standard_error(table: Floats, bounds: tuple[float, float]) -> Floats:
    """(x,) of the mean over environments of clipped means over seeds (environments, seeds, x), by the jackknife."""
    n = table.shape[1]
    if n == 1:
        return np.zeros(table.shape[2])
    left_out = (table.sum(axis=1, keepdims=True) - table) / (n - 1)
    by_seed = left_out.clip(*bounds).mean(axis=0)
    spread: Floats = np.sqrt(n - 1) * by_seed.std(axis=0)
    return spread


def earned_between(earned: Floats, x: Ints, start: int, end: int) -> Floats:
    """(environments,) mean return of episodes start + 1 … end, from means of all episodes so far (environments, x)."""
    at = {int(n): earned[:, i] for i, n in enumerate(x)}
    before = start * at[start] if start else 0.0
    return (end * at[end] - before) / (end - start)


def _table(rows: list[Row], environments: list[str], x: str, xs: list[int], measure: str) -> Floats:
    """(environments, seeds, x) values, NaN where there is none."""
    n_seeds = 1 + max(int(row["seed"]) for row in rows)
    table = np.full((len(environments), n_seeds, len(xs)), np.nan)
    for row in rows:
        table[environments.index(row["environment"]), int(row["seed"]), xs.index(int(row[x]))] = float(row[measure])
    return table
