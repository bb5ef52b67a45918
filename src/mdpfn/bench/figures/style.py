"""One look for all figures: legible at column width, and safe for colour-blind readers."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mdpfn.arrays import Floats, Ints

PAGE_WIDTH = 6.8  # inches
SCORE_LABEL = "normalized score"
MOST_TICKS = 8

# Okabe and Ito (2008), Color Universal Design; their yellow is left out, which vanishes on white
BLACK, ORANGE, SKY_BLUE, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
PALETTE = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY_BLUE, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

ENVIRONMENT_COLOURS = {"gridworld-3x3": BLUE, "gridworld-5x5": GREEN, "frozen-lake": VERMILLION}

STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 3.2,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 220,
}


@contextmanager
def figure(path: Path, width: float, height: float) -> Iterator[Figure]:
    """A figure of this size in inches, which is stored at `path` when the block is left."""
    with matplotlib.rc_context(STYLE):
        made = Figure(figsize=(width, height))
        yield made
        path.parent.mkdir(parents=True, exist_ok=True)
        made.savefig(path, metadata={"Software": None})


def plot_band(axes: Axes, x: Ints, mean: Floats, std: Floats, **line: Any) -> None:
    """A line with a band of one standard deviation to both sides."""
    axes.plot(x, mean, **line)
    axes.fill_between(x, mean - std, mean + std, color=line.get("color"), alpha=0.15, linewidth=0)


def legend_above(made: Figure, panels: Iterable[Axes]) -> None:
    """One legend above all panels, with every label once."""
    handles = {text: h for axes in panels for h, text in zip(*axes.get_legend_handles_labels(), strict=True)}
    made.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=len(handles))


def score_axes(axes: Axes, x: Iterable[int]) -> None:
    """Powers of two at the bottom; named lines where the optimal and the random policy are."""
    ticks = sorted(set(x))
    ticks = ticks[:: 1 + (len(ticks) > MOST_TICKS)]
    beside = axes.get_yaxis_transform()  # x in fractions of the axes, y in scores
    for score, name, style, side in ((1.0, "optimal", ":", "left"), (0.0, "random", "--", "right")):
        axes.axhline(score, color="0.45", linestyle=style, linewidth=0.9, zorder=1)
        x_text = 0.02 if side == "left" else 1.0
        axes.text(x_text, score, name, transform=beside, ha=side, va="bottom", fontsize=6, color="0.35")
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
