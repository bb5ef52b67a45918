"""Score against the depth K of the unrolled network, one panel per model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mdpfn.figures.data import Row, curve, group, label
from mdpfn.figures.style import BLACK, ENVIRONMENT_COLOURS, PAGE_WIDTH, SCORE_LABEL, figure, plot_band, score_axes

CSV = "depth.csv"
COLOURS = {"prior": BLACK, **ENVIRONMENT_COLOURS}
MARKERS = {"prior": "s", "gridworld-3x3": "o", "gridworld-5x5": "^", "frozen-lake": "D"}


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """Mean and one standard deviation over seeds, on held-out MDPs and on the benchmarks."""
    path = directory / "depth.png"
    models = group(rows, "weights")
    with figure(path, PAGE_WIDTH, 2.6) as made:
        panels = made.subplots(1, len(models), sharey=True, squeeze=False)[0]
        for axes, ((weights,), of_model) in zip(panels, models.items(), strict=True):
            for (environment,), of_curve in group(of_model, "environment").items():
                look: dict[str, Any] = {
                    "color": COLOURS[environment],
                    "marker": MARKERS[environment],
                    "label": label(environment),
                }
                plot_band(axes, *curve(of_curve, "depth"), **look)
            score_axes(axes, (2**i for i in range(7)))
            axes.set_ylim(-0.35, 1.15)
            axes.set_title(f"weights: {weights}")
            axes.set_xlabel("depth K")
        panels[0].set_ylabel(SCORE_LABEL)
        handles, labels = panels[0].get_legend_handles_labels()
        made.legend(handles, labels, loc="outside upper center", ncols=len(handles))
    return [path]
