"""Score against episodes, averaged over the environments of the leaderboard."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

from mdpfn.figures.data import Row
from mdpfn.figures.leaderboard import Scores
from mdpfn.figures.style import COLUMN_WIDTH, MARKERS, PALETTE, figure, plot_band, score_axes

CSV = "leaderboard.csv"


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """One file; the bands are one standard deviation of the mean over environments, between seeds."""
    scores = Scores.of(rows)
    path = directory / "leaderboard_curves.png"
    looks = zip(cycle(PALETTE), cycle(MARKERS), [*["-"] * len(PALETTE), *["--"] * len(PALETTE)], strict=False)
    with figure(path, COLUMN_WIDTH, 3.2) as made:
        axes = made.subplots()
        for (agent, table), (colour, marker, style) in zip(scores.agents.items(), looks, strict=False):
            look = {"color": colour, "marker": marker, "linestyle": style, "label": agent}
            plot_band(axes, scores.x, table.mean(axis=0), scores.spread[agent], **look)
        score_axes(axes, scores.x.tolist())
        axes.set_ylim(-0.02, 1.02)
        axes.set_xlabel("episodes")
        axes.set_ylabel(f"mean clipped score, {len(scores.environments)} environments")
        made.legend(loc="outside upper center", ncols=2)
    return [path]
