"""Do stated intervals cover what they say, whatever the amount of data?

    python -m benchmarks.intervals --json FILE [--mdps FOLDER]

Worlds of the prior and named environments (or a folder of MDPs), with data in which every pair was visited equally
often, and with logs of soft policies 0.3 and 0.6 of the way from random to optimal that have as many transitions.
Intervals of Q* are those of `Agent.plan`. Those of the value of the recommended policy at the start, and of what it
gains over the logged one, are those of `result.value` and `result.improvement`. An interval counts where it has a
width: where nothing is left to chance, values are known exactly. `… with exact ones` counts those too, as covered if
the truth is what they say. MDPs have the same weight each; all but the worlds get several samples of data. Errors of
the pairs of one sample go together, so that shares have a standard error of about 0.02.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tyro

from mdpfn import Agent, Plan, TabularMDP
from mdpfn.arrays import Floats
from mdpfn.bench.environments import ENVIRONMENTS, load_environments
from mdpfn.bench.protocols.logged_data import LogSource, soft_policy
from mdpfn.bench.protocols.parallel import generator
from mdpfn.model.exact import finite_horizon_value, optimal_q, policy_value
from mdpfn.prior.world import WorldConfig, sample_world
from mdpfn.worth import Worth

VISITS = (5, 30, 100, 1_000, 20_000)
LEVELS = {"90": (0.05, 0.95), "50": (0.25, 0.75)}
SHARES = (0.3, 0.6)  # of the way from random to optimal that logged policies are
LARGEST = 40  # states
HORIZON = 50  # of episodes in worlds
WIDTH = 1e-6  # of the largest value; narrower intervals have no width


def main(
    json: Path | None = None,
    mdps: Path | None = None,
    worlds: int = 400,
    samples: int = 8,
    weights: str = "mdpfn-2",
) -> None:
    """Print the table of coverage by visits per pair, and write it to a file.

    Args:
        json: The file to write.
        mdps: A folder of MDPs to take in place of the named environments.
        worlds: Held-out worlds of the prior.
        samples: Of data of every MDP that is not such a world.
        weights: Those of the agent.
    """
    agent, config = Agent.from_pretrained(weights), WorldConfig(n_states=(3, 30))
    rng = generator("intervals")
    known = ENVIRONMENTS.values() if mdps is None else load_environments(mdps)
    built = [(environment.build(), environment.horizon) for environment in known]
    groups = {
        "held-out worlds": [(sample_world(rng, config), HORIZON) for _ in range(worlds)],
        "environments" if mdps is None else mdps.name: [p for p in built if p[0].n_states <= LARGEST] * samples,
    }
    table: dict[str, dict[str, dict[str, float]]] = {}
    for name, group in groups.items():
        equal, logged = _measured(agent, group, generator("intervals", name))
        table[name], table[f"{name}, logged data"] = equal, logged
    for name, rows in table.items():
        for visits, row in rows.items():
            cells = ", ".join(f"{key}: {100 * share:.1f} %" for key, share in row.items())
            print(f"{name}, {visits} visits per pair: {cells}")
    if json is not None:
        write(json, table)


def write(path: Path, table: object) -> None:
    path.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def _measured(
    agent: Agent, problems: Sequence[tuple[TabularMDP, int]], rng: np.random.Generator
) -> tuple[dict[str, dict[str, float]], ...]:
    """Coverage by visits, with equal visits and with logs."""
    shares: tuple[dict[int, list[dict[str, float]]], ...] = ({v: [] for v in VISITS}, {v: [] for v in VISITS})
    for number, (mdp, horizon) in enumerate(problems):
        source, truth = LogSource(mdp), optimal_q(mdp)
        decides = ~mdp.terminal[:, None] & np.ones(mdp.reward.shape, dtype=bool)
        behaviour = soft_policy(mdp, SHARES[number % len(SHARES)])
        length = finite_horizon_value(_counting(mdp), behaviour, horizon)
        for visits in VISITS:
            plan = _plan(agent, mdp, source.visits(visits * decides, rng))
            shares[0][visits].append(covered(plan, truth, decides))
            log = source.episodes(behaviour, max(round(visits * decides.sum() / length), 2), horizon, rng)
            plan = _plan(agent, mdp, log.statistics)
            worth = worth_covered(plan, log.starts, mdp, behaviour)
            shares[1][visits].append(covered(plan, truth, decides) | worth)
    return tuple({str(v): _mean(rows) for v, rows in part.items()} for part in shares)


def _mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {key: round(float(np.nanmean([row[key] for row in rows])), 3) for key in rows[0]}


def _counting(mdp: TabularMDP) -> TabularMDP:
    """The MDP that pays 1 for every step, undiscounted: its values are lengths of episodes."""
    reward = np.repeat(~mdp.terminal[:, None], mdp.n_actions, axis=1).astype(np.float64)
    return TabularMDP(
        mdp.transition, reward, 1.0, mdp.start, mdp.terminal, np.zeros(mdp.transition.nnz), np.zeros_like(reward)
    )


def _plan(agent: Agent, mdp: TabularMDP, statistics: object) -> Plan:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of discounts outside the trained ones
        return agent.plan(statistics, discount=mdp.discount)  # type: ignore[arg-type]


def covered(plan: Plan, truth: Floats, decides: Floats) -> dict[str, float]:
    """By level, the share of pairs whose Q* lies in the stated interval; NaN where none has a width."""
    found, least = {}, WIDTH * np.abs(truth).max()
    for level, (low, high) in LEVELS.items():
        below, above = plan.q_at(low), plan.q_at(high)
        wide = decides & (above - below > least)
        inside = (below - least <= truth) & (truth <= above + least)
        found[level] = float(inside[wide].mean()) if wide.any() else np.nan
        found[f"{level} with exact ones"] = float(inside[decides].mean())
    return found


def worth_covered(plan: Plan, starts: Counter[int], mdp: TabularMDP, behaviour: Floats) -> dict[str, float]:
    """Whether the 90 % intervals of value and improvement hold the truth; NaN where they have no width."""
    worth = Worth(plan, starts)
    least = WIDTH * float(np.abs(policy_value(mdp, plan.greedy)).max())
    new, logged = (float(mdp.start @ policy_value(mdp, policy)) for policy in (plan.greedy, behaviour))
    found = {}
    for name, stated, true in (
        ("value 90", worth.value(plan), new),
        ("logged value 90", worth.logged, logged),
        ("improvement 90", worth.improvement(plan.recommended), new - logged),
    ):
        low, high = stated.interval(0.9)
        found[name] = float(low <= true <= high) if high - low > least else np.nan
    return found


if __name__ == "__main__":
    tyro.cli(main)
