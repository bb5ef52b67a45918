"""Reading result files, and naming, grouping and averaging their rows."""

import csv
from pathlib import Path
from typing import TypeAlias

import numpy as np

from mdpfn.arrays import Floats, Ints

Row: TypeAlias = dict[str, str]

LABELS = {
    "gridworld-3x3": "GridWorld 3×3",
    "gridworld-5x5": "GridWorld 5×5",
    "frozen-lake": "FrozenLake",
    "ucbvi": "UCB-VI",
    "q-learning": "Q-learning",
    "ucb-h": "UCB-H",
    "psrl": "PSRL",
    "r-max": "R-MAX",
    "certainty-equivalence": "certainty equivalence",
    "vi-lcb": "VI-LCB",
}
SYMBOLS = {"depth": "K", "acting_temperature": "τ", "penalty": "c", "bonus": "c", "epsilon": "ε"}  # of options
BENCHMARKS = ("gridworld-3x3", "gridworld-5x5", "frozen-lake")  # of the paper, in its order


def read(path: Path) -> list[Row]:
    """All rows of a result file, none if it does not exist."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def label(name: str, weights: str = "", options: str = "") -> str:
    """The name of an environment or a method in figures and tables, with weights and options."""
    parts = [weights] if weights else []
    for key, value in _options(options).items():
        if key != "exploration":  # which goes with a temperature
            parts.append(f"{SYMBOLS.get(key, key)} = {float(value):g}")
    text = LABELS.get(name, name)
    return f"{text} ({', '.join(parts)})" if parts else text


def option(row: Row, name: str) -> str:
    """The value of one of a method's options, empty where it has the default."""
    return _options(row["options"]).get(name, "")


def _options(text: str) -> dict[str, str]:
    """The options of a method, by name, as result files spell them."""
    return dict(part.split(" = ") for part in filter(None, text.split(", ")))


def group(rows: list[Row], *columns: str) -> dict[tuple[str, ...], list[Row]]:
    """Rows by their values in these columns, in the order of first appearance."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    return groups


def curve(rows: list[Row], x: str) -> tuple[Ints, Floats, Floats]:
    """The values of `x`, and the mean and standard deviation of the scores at each of them."""
    at = {int(value): [float(row["score"]) for row in of_x] for (value,), of_x in group(rows, x).items()}
    xs = sorted(at)
    return np.array(xs), np.array([np.mean(at[i]) for i in xs]), np.array([np.std(at[i]) for i in xs])
