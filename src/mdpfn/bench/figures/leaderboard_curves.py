"""Earned and known against episodes, averaged over the environments of the leaderboard."""

from itertools import cycle
from pathlib import Path

from mdpfn.bench.figures.data import Row
from mdpfn.bench.figures.leaderboard import Scores
from mdpfn.bench.figures.style import MARKERS, PAGE_WIDTH, PALETTE, figure, plot_band, score_axes

CSV = "leaderboard.csv"
PANELS = {"earned": "earned so far, while learning", "score": "worth of the policy known by then"}


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """One file; the bands are one standard error of the mean over environments, from the seeds."""
    path = directory / "leaderboard_curves.png"
    names = list(Scores.of(rows, measure="earned").agents)
    looks = zip(cycle(PALETTE), cycle(MARKERS), [*["-"] * len(PALETTE), *["--"] * len(PALETTE)], strict=False)
    styles = dict(zip(names, looks, strict=False))
    with figure(path, PAGE_WIDTH, 3.4) as made:
        panels = made.subplots(1, len(PANELS), sharey=True)
        for axes, (measure, title) in zip(panels, PANELS.items(), strict=True):
            scores = Scores.of(rows, measure=measure)
            for agent in names:
                colour, marker, style = styles[agent]
                look = {"color": colour, "marker": marker, "linestyle": style, "label": agent}
                plot_band(axes, scores.x, scores.agents[agent].mean(axis=0), scores.spread[agent], **look)
            score_axes(axes, scores.x.tolist())
            axes.set_ylim(-0.12, 1.02)
            axes.set_xlabel("episodes")
            axes.set_title(title)
        panels[0].set_ylabel(f"random 0, optimal 1: mean of {len(scores.environments)} environments")
        made.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return [path]
