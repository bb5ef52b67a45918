"""Do stated intervals of Q* cover what they say, whatever the amount of data?

    python -m benchmarks.intervals --json FILE [--mdps FOLDER]

Every pair is visited equally often; an interval counts where it has a width at all, since where nothing is left to
chance Q* is known exactly. Worlds have the same weight each. `plan.q_at` is asked through `Agent.plan`.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import tyro

from mdpfn import Agent, Statistics, TabularMDP
from mdpfn.arrays import Floats
from mdpfn.bench.environments import ENVIRONMENTS, load_environments
from mdpfn.bench.protocols.parallel import generator
from mdpfn.model.exact import optimal_q
from mdpfn.prior.world import WorldConfig, sample_world

VISITS = (5, 30, 100, 1_000, 20_000)
LEVELS = {"90": (0.05, 0.95), "50": (0.25, 0.75)}
LARGEST = 80  # states
WIDTH = 1e-6  # of the largest value; narrower intervals have no width


def main(json: Path | None = None, mdps: Path | None = None, worlds: int = 200, weights: str = "mdpfn-1") -> None:
    """Print the table of coverage by visits per pair, and write it to a file."""
    agent = Agent.from_pretrained(weights)
    rng = generator("intervals")
    config = WorldConfig(n_states=(3, 40))
    problems = {"held-out worlds": [sample_world(rng, config) for _ in range(worlds)]}
    known = ENVIRONMENTS.values() if mdps is None else load_environments(mdps)
    built = [environment.build() for environment in known]
    problems["environments" if mdps is None else mdps.name] = [mdp for mdp in built if mdp.n_states <= LARGEST]
    table: dict[str, dict[str, dict[str, float]]] = {}
    for name, group in problems.items():
        table[name] = {}
        for visits in VISITS:
            shares = [covered(agent, mdp, visits, rng) for mdp in group]
            table[name][str(visits)] = {
                level: round(float(np.nanmean([share[level] for share in shares])), 3) for level in LEVELS
            }
            cells = "  ".join(
                f"{level} % covers {100 * share:.1f} %" for level, share in table[name][str(visits)].items()
            )
            print(f"{name}, {visits} visits per pair: {cells}", flush=True)
    if json is not None:
        write(json, table)


def write(path: Path, table: object) -> None:
    path.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def covered(agent: Agent, mdp: TabularMDP, visits: int, rng: np.random.Generator) -> dict[str, float]:
    """By level, the share of pairs whose Q* lies in the stated interval; NaN where none has a width."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of discounts outside the trained ones
        plan = agent.plan(visited(mdp, visits, rng), discount=mdp.discount)
    truth = optimal_q(mdp)
    found = {}
    for level, (low, high) in LEVELS.items():
        below, above = plan.q_at(low), plan.q_at(high)
        counts = ~mdp.terminal[:, None] & (above - below > WIDTH * np.abs(truth).max())
        inside = (below <= truth) & (truth <= above)
        found[level] = float(inside[counts].mean()) if counts.any() else np.nan
    return found


def visited(mdp: TabularMDP, visits: int, rng: np.random.Generator) -> Statistics:
    """Statistics of so many visits of every pair of a state that is not terminal, with exact sums of rewards."""
    n_pairs, n_states = mdp.transition.shape
    counts = np.zeros((n_pairs, n_states))
    sums, squares = np.zeros((2, n_pairs))
    std = mdp.reward_std.reshape(-1)
    for pair in np.flatnonzero(~np.repeat(mdp.terminal, mdp.n_actions)):
        entries = slice(mdp.transition.indptr[pair], mdp.transition.indptr[pair + 1])
        share: Floats = mdp.transition.data[entries]
        drawn = rng.multinomial(visits, share / share.sum())
        counts[pair, mdp.transition.indices[entries]] += drawn
        rewards = np.repeat(mdp.outcome_reward[entries], drawn) + std[pair] * rng.standard_normal(visits)
        sums[pair], squares[pair] = rewards.sum(), (rewards**2).sum()
    shape = (mdp.n_states, mdp.n_actions)
    observed = Statistics.from_counts(counts.reshape(*shape, n_states), sums.reshape(shape), mdp.terminal)
    observed._reward_square_sum = {pair: float(squares[pair]) for pair in observed._reward_square_sum}
    return observed


if __name__ == "__main__":
    tyro.cli(main)
