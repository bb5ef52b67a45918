"""How the penalty of VI-LCB changes what it recovers, one panel per environment (B.4)."""

from pathlib import Path

import matplotlib
import numpy as np

from mdpfn.bench.figures.data import BENCHMARKS, Row, curve, group, label, option
from mdpfn.bench.figures.style import PAGE_WIDTH, SCORE_LABEL, figure, plot_band, score_axes

CSV = "offline.csv"


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """One file, if VI-LCB was measured."""
    sweep = [row for row in rows if row["agent"] == "vi-lcb"]
    if not sweep:
        return []
    penalties = sorted({option(row, "penalty") for row in sweep}, key=float)
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, len(penalties)))
    widths = np.linspace(3.6, 0.8, len(penalties))  # thinner and thinner, so that lines on top of each other show
    looks = {
        penalty: {"color": colour, "linewidth": width, "label": f"$c = {float(penalty):g}$"}
        for penalty, colour, width in zip(penalties, colours, widths, strict=True)
    }
    path = directory / "vi_lcb_sweep.png"
    with figure(path, PAGE_WIDTH, 2.4) as made:
        panels = made.subplots(1, len(BENCHMARKS), sharey=True)
        for axes, environment in zip(panels, BENCHMARKS, strict=True):
            here = [row for row in sweep if row["environment"] == environment]
            for of_curve in group(here, "options").values():
                plot_band(axes, *curve(of_curve, "transitions"), **looks[option(of_curve[0], "penalty")])
            score_axes(axes, (int(row["transitions"]) for row in sweep))
            axes.set_title(label(environment))
            axes.set_xlabel("transitions in the data set")
        panels[0].set_ylabel(SCORE_LABEL)
        made.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(penalties))
    return [path]
