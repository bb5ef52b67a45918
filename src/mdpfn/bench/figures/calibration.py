"""Nominal against observed coverage of the quantiles of Q*, for all pairs and by amount of data."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from mdpfn.arrays import Floats
from mdpfn.bench.figures.data import Row, group
from mdpfn.bench.figures.style import MARKERS, PAGE_WIDTH, PALETTE, figure

CSV = "calibration.csv"
COLUMNS = 4
TOLERANCE = 0.03  # the deviation that the grey band allows


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """One panel per group of pairs, with the largest deviation in words.

    Bars are two standard errors between seeds; grey is the deviation that is tolerated.
    """
    path = directory / "calibration.png"
    groups = group(rows, "group")
    n_rows = -(-len(groups) // COLUMNS)
    with figure(path, PAGE_WIDTH, 0.4 + 1.75 * n_rows) as made:
        panels = made.subplots(n_rows, COLUMNS, sharex=True, sharey=True, squeeze=False)
        for axes in panels.flat[len(groups) :]:
            axes.set_axis_off()
        for axes, ((name,), of_group) in zip(panels.flat, groups.items(), strict=False):
            _draw_panel(axes, of_group)
            axes.set_title(name)
            axes.set(xlim=(0, 1), ylim=(0, 1), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        made.supxlabel("stated: level of the quantile", fontsize=8)
        made.supylabel("observed: share of Q* at or below it", fontsize=8)
    return [path]


def _draw_panel(axes: Axes, rows: list[Row]) -> None:
    ends = np.array([0.0, 1.0])
    axes.fill_between(ends, ends - TOLERANCE, ends + TOLERANCE, color="0.85", linewidth=0)
    axes.plot(ends, ends, color="0.45", linestyle=":", linewidth=0.9)
    models = sorted(group(rows, "weights").items())
    for i, (((weights,), of_model), colour, marker) in enumerate(zip(models, PALETTE, MARKERS, strict=False)):
        level, observed, error = coverage(of_model)
        axes.errorbar(level, observed, 2 * error, color=colour, marker=marker, elinewidth=0.8)
        note = f"{weights}: {deviation(level, observed)}"
        beside: dict[str, Any] = {"transform": axes.transAxes, "ha": "right", "va": "bottom"}
        axes.text(0.99, 0.02 + 0.09 * i, note, fontsize=5, color=colour, **beside)


def coverage(rows: list[Row]) -> tuple[Floats, Floats, Floats]:
    """Levels, the observed share at each over all worlds, and its standard error between seeds."""
    levels, shares, errors = [], [], []
    for (level,), of_level in sorted(group(rows, "level").items(), key=lambda item: float(item[0][0])):
        observed = np.array([float(row["observed"]) for row in of_level])
        worlds = np.array([float(row["worlds"]) for row in of_level])
        weight = worlds / worlds.sum()
        share = weight @ observed
        levels.append(float(level))
        shares.append(share)
        errors.append(np.sqrt(np.sum((weight * (observed - share)) ** 2)))
    return np.array(levels), np.array(shares), np.array(errors)


def deviation(level: Floats, observed: Floats) -> str:
    """How much observed and stated coverage differ, and where they differ most."""
    worst = int(np.abs(observed - level).argmax())
    return f"off by {100 * abs(observed[worst] - level[worst]):.1f} points at {level[worst]:g}"
