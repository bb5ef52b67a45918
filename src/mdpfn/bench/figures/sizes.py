"""Score against the number of states, one panel per amount of data."""

from pathlib import Path
from typing import Any

from mdpfn.bench.figures.data import Row, curve, group, label
from mdpfn.bench.figures.style import (
    BLUE,
    GREEN,
    MARKERS,
    ORANGE,
    PAGE_WIDTH,
    PURPLE,
    SKY_BLUE,
    figure,
    legend_above,
    plot_band,
)

CSV = "sizes.csv"
REFERENCES = {"certainty-equivalence": (ORANGE, "^"), "vi-lcb": (GREEN, "v")}
MODELS = (BLUE, PURPLE, SKY_BLUE)


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """Mean and one standard deviation over seeds."""
    path = directory / "sizes.png"
    amounts = group(rows, "visits")
    models = sorted({row["weights"] for row in rows if row["weights"]})
    with figure(path, PAGE_WIDTH, 2.6) as made:
        panels = made.subplots(1, len(amounts), sharey=True, squeeze=False)[0]
        for axes, ((visits,), of_amount) in zip(panels, amounts.items(), strict=True):
            for (method, weights), of_curve in group(of_amount, "method", "weights").items():
                look: dict[str, Any] = {"label": label(method, weights)}
                if weights:
                    look |= {"color": MODELS[models.index(weights) % len(MODELS)], "marker": MARKERS[0]}
                else:
                    look |= {"color": REFERENCES[method][0], "marker": REFERENCES[method][1], "linestyle": "--"}
                plot_band(axes, *curve(of_curve, "states"), **look)
            ticks = sorted({int(row["states"]) for row in of_amount})
            axes.set_xscale("log", base=2)
            axes.set_xticks(ticks, [str(tick) for tick in ticks])
            axes.minorticks_off()
            axes.set_ylim(0, 1.02)
            axes.set_title(f"visits per state and action: {float(visits):g}")
            axes.set_xlabel("states")
        panels[0].set_ylabel("mean clipped score")
        legend_above(made, panels)
    return [path]
