"""Score of the policy recovered from uniform-random data, in-context against VI-LCB (B.4)."""

from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D

from mdpfn.bench.figures.data import BENCHMARKS, Row, curve, group, label, option
from mdpfn.bench.figures.style import ENVIRONMENT_COLOURS, PAGE_WIDTH, SCORE_LABEL, figure, plot_band, score_axes

CSV = "offline.csv"
PENALTY = "0.1"  # c of VI-LCB in the paper's figure
METHOD_LOOKS: dict[str, dict[str, Any]] = {
    "in-context": {"linestyle": "-", "marker": "o"},
    "vi-lcb": {"linestyle": "--", "marker": "s", "markerfacecolor": "white"},
}


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """One file per model, with the mean and one standard deviation over seeds."""
    baseline = [row for row in rows if row["agent"] == "vi-lcb" and option(row, "penalty") == PENALTY]
    models = group([row for row in rows if row["weights"] and not row["options"]], "weights")
    return [
        _draw([*of_model, *baseline], directory / f"offline_{weights}.png") for (weights,), of_model in models.items()
    ]


def _draw(rows: list[Row], path: Path) -> Path:
    curves = group(rows, "environment", "agent")
    with figure(path, PAGE_WIDTH, 2.4) as made:
        panels = dict(zip(BENCHMARKS, made.subplots(1, len(BENCHMARKS), sharey=True), strict=True))
        for (environment, method), of_curve in curves.items():
            look = {"color": ENVIRONMENT_COLOURS[environment], **METHOD_LOOKS[method]}
            plot_band(panels[environment], *curve(of_curve, "transitions"), **look)
        for environment, axes in panels.items():
            score_axes(axes, (int(row["transitions"]) for row in rows))
            axes.set_title(label(environment))
            axes.set_xlabel("transitions in the data set")
        panels[BENCHMARKS[0]].set_ylabel(SCORE_LABEL)
        handles = [Line2D([], [], color="0.3", label=label(name), **look) for name, look in METHOD_LOOKS.items()]
        made.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return path
