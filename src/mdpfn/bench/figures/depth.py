"""Score against the depth K of the unrolled network, one panel per model."""

from pathlib import Path
from typing import Any

from mdpfn.bench.figures.data import Row, curve, group, label
from mdpfn.bench.figures.style import BLACK, ENVIRONMENT_COLOURS, PAGE_WIDTH, SCORE_LABEL, figure, plot_band, score_axes

CSV = "depth.csv"
COLUMNS = 2
COLOURS = {"prior": BLACK, **ENVIRONMENT_COLOURS}
MARKERS = {"prior": "s", "gridworld-3x3": "o", "gridworld-5x5": "^", "frozen-lake": "D"}


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """Mean and one standard deviation over seeds, on held-out MDPs and on the benchmarks."""
    path = directory / "depth.png"
    models = group(rows, "weights")
    n_rows = -(-len(models) // COLUMNS)
    with figure(path, PAGE_WIDTH, 0.4 + 2.3 * n_rows) as made:
        panels = made.subplots(n_rows, min(len(models), COLUMNS), sharex=True, sharey=True, squeeze=False)
        for axes in panels.flat[len(models) :]:
            axes.set_axis_off()
        for axes, ((weights,), of_model) in zip(panels.flat, models.items(), strict=False):
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
        made.supxlabel("depth K")
        made.supylabel(SCORE_LABEL)
        handles, labels = panels.flat[0].get_legend_handles_labels()
        made.legend(handles, labels, loc="outside upper center", ncols=len(handles))
    return [path]
