"""Loss and scores of the snapshots of a training run against the number of MDPs seen."""

from pathlib import Path

import numpy as np

from mdpfn.bench.figures.data import BENCHMARKS, Row, curve, group, label
from mdpfn.bench.figures.style import BLACK, ENVIRONMENT_COLOURS, PAGE_WIDTH, SCORE_LABEL, figure, plot_band

CSV = "compute.csv"
MARKERS = dict(zip(BENCHMARKS, ("o", "^", "D"), strict=True))


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """KL to the target policy and score on held-out MDPs; episodes to convergence, median and quartiles."""
    path = directory / "compute.png"
    by_environment = {name: of for (name,), of in group(rows, "environment").items()}
    with figure(path, PAGE_WIDTH, 2.5) as made:
        left, middle, right = made.subplots(1, 3)
        by_mdps = sorted((int(row["mdps"]), float(row["kl"])) for row in by_environment["validation"])
        left.plot(*zip(*by_mdps, strict=True), color=BLACK, marker="s")
        left.set_ylabel("KL to the target, held-out MDPs")
        plot_band(middle, *curve(by_environment["prior"], "mdps"), color=BLACK, marker="s")
        middle.set_ylabel(f"{SCORE_LABEL}, held-out MDPs")
        for name in BENCHMARKS:
            points = {
                int(m): [int(r["episodes"]) for r in of] for (m,), of in group(by_environment[name], "mdps").items()
            }
            x = sorted(points)
            low, median, high = np.array([np.percentile(points[m], (25, 50, 75)) for m in x]).T
            right.plot(x, median, color=ENVIRONMENT_COLOURS[name], marker=MARKERS[name], label=label(name))
            right.fill_between(x, low, high, color=ENVIRONMENT_COLOURS[name], alpha=0.15, linewidth=0)
        right.set_yscale("log", base=2)
        right.set_ylabel("episodes to converge")
        made.legend(*right.get_legend_handles_labels(), loc="outside upper right", ncols=3)
        for axes in (left, middle, right):
            axes.set_xscale("log", base=10)
            axes.set_xlabel("MDPs seen in training")
    return [path]
