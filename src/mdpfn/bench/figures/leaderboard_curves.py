"""Earned and known against episodes, averaged over the environments of the leaderboard."""

from itertools import cycle
from pathlib import Path
from typing import Any

from mdpfn.bench.figures.data import Row
from mdpfn.bench.figures.leaderboard import Scores
from mdpfn.bench.figures.style import BLUE, MARKERS, PAGE_WIDTH, PALETTE, figure, plot_band, score_axes

CSV = "leaderboard.csv"
PANELS = {"earned": "earned so far, while learning", "score": "worth of the policy known by then"}


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """One file; the bands are one standard error of the mean over environments, from the seeds."""
    path = directory / "leaderboard_curves.png"
    names = list(Scores.of(rows, measure="earned").agents)
    others = cycle([colour for colour in PALETTE if colour != BLUE])  # the best one's own, and thicker
    colours = [BLUE, *(next(others) for _ in names[1:])]
    styles = ["-"] * len(PALETTE) + ["--"] * (len(names) - len(PALETTE))
    looks = dict(zip(names, zip(colours, cycle(MARKERS), styles, strict=False), strict=False))
    with figure(path, PAGE_WIDTH, 3.4) as made:
        panels = made.subplots(1, len(PANELS), sharey=True)
        for axes, (measure, title) in zip(panels, PANELS.items(), strict=True):
            scores = Scores.of(rows, measure=measure)
            for agent in names:
                colour, marker, style = looks[agent]
                look: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": style, "label": agent}
                look |= {"linewidth": 2.2, "markersize": 4.5, "zorder": 3} if agent == names[0] else {}
                plot_band(axes, scores.x, scores.agents[agent].mean(axis=0), scores.spread[agent], **look)
            score_axes(axes, scores.x.tolist())
            axes.set_ylim(-0.12, 1.02)
            axes.set_xlabel("episodes")
            axes.set_title(title)
        panels[0].set_ylabel(f"random 0, optimal 1: mean of {len(scores.environments)} environments")
        made.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return [path]
