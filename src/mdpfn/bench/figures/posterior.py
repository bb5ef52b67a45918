"""Score of policies from little data against the amount of data, beside the best possible."""

from pathlib import Path
from typing import Any

import numpy as np

from mdpfn.bench.figures.data import Row, group, label
from mdpfn.bench.figures.style import BLACK, BLUE, ORANGE, PAGE_WIDTH, SCORE_LABEL, figure, legend_above, plot_band

CSV = "posterior.csv"
LOOKS: dict[str, dict[str, Any]] = {
    "bayes-optimal": {"color": BLACK, "linestyle": ":", "marker": "s"},
    "in-context": {"color": BLUE, "marker": "o"},
    "certainty-equivalence": {"color": ORANGE, "linestyle": "--", "marker": "^"},
}


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """One panel per prior; mean and standard error over seeds."""
    path = directory / "posterior.png"
    priors = group(rows, "prior")
    with figure(path, PAGE_WIDTH, 2.6) as made:
        panels = made.subplots(1, len(priors), sharey=True, squeeze=False)[0]
        for axes, ((prior,), of_prior) in zip(panels, sorted(priors.items()), strict=True):
            for (method, weights), of_curve in group(of_prior, "method", "weights").items():
                points = {
                    float(v): [float(r["score"]) for r in of_v] for (v,), of_v in group(of_curve, "visits").items()
                }
                x = sorted(points)
                mean = np.array([np.mean(points[v]) for v in x])
                error = np.array([np.std(points[v]) / np.sqrt(len(points[v])) for v in x])
                plot_band(axes, np.array(x), mean, error, label=label(method, weights), **LOOKS[method])
            axes.axhline(1, color="0.45", linestyle=":", linewidth=0.9)
            axes.set_xscale("log")
            axes.set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
            axes.minorticks_off()
            axes.set_title(f"MDPs of the prior: {prior}")
            axes.set_xlabel("mean visits per state and action")
        panels[0].set_ylabel(SCORE_LABEL)
        legend_above(made, panels)
    return [path]
