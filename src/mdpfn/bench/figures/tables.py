"""Tables drawn from result files."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.bench.figures.calibration import coverage
from mdpfn.bench.figures.data import BENCHMARKS, Row, curve, group, label, option, read
from mdpfn.bench.figures.leaderboard import Scores, earned_between
from mdpfn.bench.figures.table import Table

SOLVED = 0.95  # of the optimal value
WORST = 0.1  # share of the scores that count as the worst

PAPER_CONVERGENCE = {
    "in-context": {"gridworld-3x3": 6, "gridworld-5x5": 6, "frozen-lake": 27},
    "ucbvi": {"gridworld-3x3": 16, "gridworld-5x5": 53, "frozen-lake": 46},
    "q-learning": {"gridworld-3x3": 469, "gridworld-5x5": 1205, "frozen-lake": 1014},
}
PAPER_LAKE = "FrozenLake is the paper's: a fifth of the moves slip and holes cost 1, unlike in Gymnasium's."


def convergence(rows: list[Row]) -> Table:
    """Median episodes to convergence of every method, beside what the paper reports (B.3)."""
    cells = group(rows, "environment", "agent", "weights", "options")
    headers, body = ["", *(label(environment) for environment in BENCHMARKS)], []
    for agent, reported in PAPER_CONVERGENCE.items():
        for key in sorted({(row["agent"], row["weights"], row["options"]) for row in rows if row["agent"] == agent}):
            medians = [_median_episodes(cells.get((name, *key), [])) for name in BENCHMARKS]
            body.append([label(key[0], key[1], key[2] if key[1] else ""), *medians])
        body.append([f"{label(agent)}, as the paper reports", *(str(reported[name]) for name in BENCHMARKS)])
    n_seeds = len({row["seed"] for row in rows})
    note = (
        f"Median over {n_seeds} seeds of the episodes until the exact score of the greedy policy stays at or above "
        "0.95 for 8 episodes; (n/m): only n of m seeds got there. Agents act as they are shipped; where K and τ are "
        "given, by the softmax of their network, as in the paper. UCB-VI and Q-learning are told the true range of "
        f"rewards for their optimistic start, as in the paper; the in-context agent is not. {PAPER_LAKE}"
    )
    return Table("Episodes to convergence", headers, body, note)


def _median_episodes(rows: list[Row]) -> str:
    """The median number of episodes; seeds that never converged count as infinite."""
    if not rows:
        return "–"
    episodes = [float(row["episodes"] or "inf") for row in rows]
    reached = sum(np.isfinite(episodes))
    share = "" if reached == len(rows) else f" ({reached}/{len(rows)})"
    median = float(np.median(episodes))
    return f"{median:g}{share}" if np.isfinite(median) else f"never{share}"


def offline(rows: list[Row]) -> Table:
    """Mean score of the recovered policy by size of the data set (B.4)."""
    shown = [row for row in rows if row["weights"] or option(row, "penalty") == "0.1"]
    cells = group(shown, "environment", "agent", "weights", "options")
    sizes = sorted({int(row["transitions"]) for row in shown})
    body = [
        [label(environment), label(*method), *(f"{score:.2f}" for score in [*means, means.mean()])]
        for environment in BENCHMARKS
        for (name, *method), of_cell in cells.items()
        if name == environment
        for _, means, _ in [curve(of_cell, "transitions")]
    ]
    n_seeds = len({row["seed"] for row in shown})
    note = f"Mean over {n_seeds} seeds of the exact score after so many uniform-random transitions. {PAPER_LAKE}"
    return Table("Offline recovery", ["", "", *(str(size) for size in sizes), "mean"], body, note)


def leaderboard(rows: list[Row]) -> Table:
    """Earned (return while learning) and known (value of the policy) of every agent over all environments."""
    earned, known = Scores.of(rows, measure="earned"), Scores.of(rows)
    last = int(known.x[-1])
    parts = list(pairwise([0, *(cut for cut in (last // 8, last // 2) if cut in known.x), last]))
    headers = ["agent", "earned", *(f"{a + 1}–{b}" for a, b in parts), "known", f"at {last}", "solved"]
    body = []
    for agent in sorted(earned.agents, key=lambda name: -earned.agents[name][:, -1].mean()):
        table = earned.agents[agent]
        segments = [earned_between(earned.means[agent], earned.x, *part).clip(-1, 1).mean() for part in parts]
        worth = known.agents[agent]
        cells = [_with_error(table[:, -1].mean(), earned.spread[agent][-1]), *(f"{x:.2f}" for x in segments)]
        cells += [_with_error(worth.mean(), known.spread[agent].mean()), f"{worth[:, -1].mean():.2f}"]
        body.append([agent, *cells, f"{(worth[:, -1] >= SOLVED).mean():.0%}"])
    note = (
        f"Earned: discounted return of all {last} episodes, and of some of them, uniform random 0 and optimal 1, "
        "clipped to −1..1; known: exact normalized value of the policy that `predict` returns, mean of those after "
        f"{', '.join(map(str, known.x))} episodes, clipped to 0..1. Mean of {known.n_seeds} seeds and "
        f"{len(known.environments)} environments, ± one standard error from the seeds; solved: share of environments "
        f"with at least {SOLVED} at the end.{known.left_out}"
    )
    return Table("Leaderboard: earned and known", headers, body, note)


def budgets(rows: list[Row]) -> Table:
    """Earned and known with smaller and larger budgets, and with rewards in other units."""
    body, n_seeds = [], []
    settings = sorted(group(rows, "budget", "unit").items(), key=lambda item: [float(part) for part in item[0][::-1]])
    for (budget, unit), of_setting in settings:
        earned, known = Scores.of(of_setting, measure="earned"), Scores.of(of_setting)
        n_seeds.append(known.n_seeds)
        for agent in sorted(earned.agents, key=lambda name: -earned.agents[name][:, -1].mean()):
            worth = known.agents[agent]
            cells = [f"{mean:.2f}" for mean in (earned.agents[agent][:, -1].mean(), worth.mean(), worth[:, -1].mean())]
            body.append([agent, budget, f"× {unit}", *cells, f"{(worth[:, -1] >= SOLVED).mean():.0%}"])
    note = (
        "As in the leaderboard, where agents are told of so many episodes and all rewards are multiplied by a number "
        f"of which they are not told; seeds: {min(n_seeds)}."
    )
    headers = ["agent", "episodes", "rewards", "earned", "known", "at the end", "solved"]
    return Table("Leaderboard: budgets and units", headers, body, note)


def known_after(rows: list[Row]) -> Table:
    """Mean clipped score of every agent over all environments, by episodes."""
    scores = Scores.of(rows)
    body = [_means(agent, table) for agent, table in scores.agents.items()]
    note = (
        f"Exact normalized value of the policy that `predict` returns after so many episodes: mean of {scores.n_seeds} "
        f"seeds, clipped to 0..1, mean of {len(scores.environments)} environments.{scores.left_out}"
    )
    return Table("Leaderboard: known", ["agent", *map(str, scores.x), "mean"], body, note)


def _with_error(value: float, error: float) -> str:
    return f"{value:.2f}±{error:.2f}"


def offline_leaderboard(rows: list[Row]) -> Table:
    """Mean clipped score of every agent over all environments, by size of the data set.

    VI-LCB has a row for every penalty c, and one with the c that is best on average over the sizes in each environment.
    """
    scores = Scores.of(rows, "transitions")
    agents = dict(scores.agents)
    penalized = [table for name, table in agents.items() if name.startswith(label("vi-lcb"))]
    if penalized:
        by_penalty = np.stack(penalized)  # (penalties, environments, sizes)
        best = by_penalty.mean(axis=2).argmax(axis=0)
        agents[label("vi-lcb", "best c of each")] = by_penalty[best, np.arange(len(best))]
    ranked = sorted(agents, key=lambda name: -agents[name].mean())
    note = (
        f"Exact normalized score of the policy recovered from so many uniform-random transitions: mean over "
        f"{scores.n_seeds} seeds, clipped to 0..1, mean over {len(scores.environments)} environments; c of VI-LCB in "
        "units of the largest reward; best c of each: the best on average over the sizes in each environment."
        f"{scores.left_out}"
    )
    headers = ["agent", *(str(n) for n in scores.x), "mean"]
    return Table("Offline leaderboard", headers, [_means(agent, agents[agent]) for agent in ranked], note)


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


def vectors(rows: list[Row]) -> Table:
    """Mean return of every agent in every environment after so many episodes, and its mean return while learning."""
    episodes = sorted({int(row["episodes"]) for row in rows})
    body = []
    for (environment, agent), lives in sorted(group(rows, "environment", "agent").items()):
        after = group(lives, "episodes")
        returns = [_mean(after.get((str(n),), []), "return") for n in episodes]
        seeds = len({row["seed"] for row in lives})
        last = max(after, key=lambda key: int(key[0]))
        body.append([environment, agent, str(seeds), *returns, _mean(after[last], "earned")])
    note = (
        "Mean over seeds of the mean return of ten fresh episodes by the policy of `predict`, after so many episodes; "
        "earned: mean return of all episodes while learning. One set of constants for all environments."
    )
    headers = ["environment", "agent", "seeds", *map(str, episodes), "earned"]
    return Table("Environments with vectors", headers, body, note)


def _mean(rows: list[Row], column: str) -> str:
    return f"{np.mean([float(row[column]) for row in rows]):.4g}" if rows else "–"


def calibration(rows: list[Row]) -> Table:
    """Observed coverage of every level, in percent, by group of pairs."""
    levels = sorted({float(row["level"]) for row in rows})
    body = []
    for (name, weights), of_curve in group(rows, "group", "weights").items():
        level, observed, _ = coverage(of_curve)
        shares = dict(zip(level.tolist(), observed, strict=True))
        cells = [f"{100 * shares[at]:.1f}" if at in shares else "–" for at in levels]
        body.append([name, weights, *cells, f"{100 * np.abs(observed - level).max():.1f}"])
    note = (
        "Share of pairs, in percent, whose true Q* is at most the quantile of this level, on worlds of the prior that "
        "training never saw; every world has the same weight, terminal states do not count; off by: at most, in points."
    )
    headers = ["pairs", "weights", *(f"{100 * level:g}" for level in levels), "off by"]
    return Table("Calibration of the quantiles of Q*", headers, body, note)


def sizes(rows: list[Row]) -> Table:
    """Mean clipped score of every method by amount of data and number of states."""
    states = sorted({int(row["states"]) for row in rows})
    body = []
    for (visits, method, weights), of_curve in group(rows, "visits", "method", "weights").items():
        x, means, _ = curve(of_curve, "states")
        found = dict(zip(x.tolist(), means, strict=True))
        body.append(
            [f"{float(visits):g}", label(method, weights), *(f"{found[n]:.2f}" if n in found else "–" for n in states)]
        )
    note = (
        "Normalized score of the exploiting policy, clipped to 0..1: mean over held-out worlds of so many states in "
        "which every state and action was visited so often on average; VI-LCB with c = 0.1 in units of the largest "
        "reward."
    )
    body.sort(key=lambda cells: float(cells[0]))
    return Table("Sizes", ["visits", "", *(str(n) for n in states)], body, note)


def _means(agent: str, table: Floats) -> list[str]:
    """The agent, its means over environments, and their mean."""
    return [agent, *(f"{score:.2f}" for score in [*table.mean(axis=0), table.mean()])]


TABLES: dict[str, tuple[str, Callable[[list[Row]], Table]]] = {  # by name: the result file, and how it is drawn
    "convergence": ("convergence.csv", convergence),
    "convergence_other_seeds": ("other_seeds/convergence.csv", convergence),
    "offline": ("offline.csv", offline),
    "leaderboard": ("leaderboard.csv", leaderboard),
    "leaderboard_known": ("leaderboard.csv", known_after),
    "budgets": ("budgets.csv", budgets),
    "leaderboard_offline": ("leaderboard_offline.csv", offline_leaderboard),
    "leaderboard_logged": ("leaderboard_logged.csv", logged),
    "leaderboard_vectors": ("leaderboard_vectors.csv", vectors),
    "calibration": ("calibration.csv", calibration),
    "sizes": ("sizes.csv", sizes),
}


def tables_in(path: Path) -> list[Table]:
    """The tables of one result file of a leaderboard, online, offline or by budgets."""
    rows = read(path)
    if "budget" in rows[0]:
        return [budgets(rows)]
    if "return" in rows[0]:
        return [vectors(rows)]
    if "behaviour" in rows[0]:
        return [logged(rows)]
    return [offline_leaderboard(rows)] if "transitions" in rows[0] else [leaderboard(rows), known_after(rows)]


def tables(results: Path) -> dict[str, Table]:
    """All tables for which there is a result file."""
    return {name: make(rows) for name, (file, make) in TABLES.items() if (rows := read(results / file))}
