"""Greedy return against episodes in context, one panel per depth K (B.2)."""

from pathlib import Path
from typing import Any

from mdpfn.bench.figures.data import BENCHMARKS, Row, curve, group, label, option
from mdpfn.bench.figures.style import (
    ENVIRONMENT_COLOURS,
    MARKERS,
    PAGE_WIDTH,
    SCORE_LABEL,
    figure,
    plot_band,
    score_axes,
)

CSV = "learning_curves.csv"
COLUMNS = 3


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """One file per model."""
    return [
        _draw(of_model, directory / f"learning_curves_{weights}.png")
        for (weights,), of_model in group(rows, "weights").items()
    ]


def _draw(rows: list[Row], path: Path) -> Path:
    by_depth = {int(option(of_depth[0], "depth")): of_depth for of_depth in group(rows, "options").values()}
    n_rows = -(-len(by_depth) // COLUMNS)
    looks: dict[str, dict[str, Any]] = {
        environment: {"color": ENVIRONMENT_COLOURS[environment], "marker": marker, "label": label(environment)}
        for environment, marker in zip(BENCHMARKS, MARKERS, strict=False)
    }
    with figure(path, PAGE_WIDTH, 0.5 + 1.7 * n_rows) as made:
        grid = made.subplots(n_rows, COLUMNS, sharex=True, sharey=True, squeeze=False)
        for axes in grid.flat[len(by_depth) :]:
            axes.set_visible(False)
        for axes, depth in zip(grid.flat, sorted(by_depth), strict=False):
            by_environment = group(by_depth[depth], "environment")
            for environment in BENCHMARKS:
                if (environment,) in by_environment:
                    plot_band(axes, *curve(by_environment[environment,], "episodes"), **looks[environment])
            score_axes(axes, (int(row["episodes"]) for row in rows))
            axes.set_title(f"$K = {depth}$")
        made.supxlabel("episodes in context", fontsize=8)
        made.supylabel(SCORE_LABEL, fontsize=8)
        made.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return path
