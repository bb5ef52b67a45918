"""Mean score of every agent on every environment of the leaderboard."""

from pathlib import Path

import numpy as np

from mdpfn.bench.figures.data import Row, label
from mdpfn.bench.figures.leaderboard import Scores
from mdpfn.bench.figures.style import PAGE_WIDTH, figure

CSV = "leaderboard.csv"
DARK = 0.55  # scores below this have a dark background, and so a light number


def draw(rows: list[Row], directory: Path) -> list[Path]:
    """One file; agents and environments are sorted by their means, and the first row has the agents' means."""
    scores = Scores.of(rows)
    means = np.stack([table.mean(axis=1) for table in scores.agents.values()], axis=1)
    order = np.argsort(-means.mean(axis=1), kind="stable")
    values = np.concatenate([means.mean(axis=0, keepdims=True), means[order]])
    names = ["mean", *(label(scores.environments[i]) for i in order)]
    path = directory / "leaderboard_heatmap.png"
    with figure(path, PAGE_WIDTH, 1.4 + 0.19 * len(names)) as made:
        axes = made.subplots()
        image = axes.imshow(values, cmap="cividis", vmin=0, vmax=1, aspect="auto")
        axes.axhline(0.5, color="white", linewidth=2)
        axes.set_yticks(range(len(names)), names)
        axes.set_xticks(range(len(scores.agents)), list(scores.agents), rotation=30, ha="left")
        axes.tick_params(top=True, bottom=False, labeltop=True, labelbottom=False, length=0)
        axes.grid(visible=False)
        for (row, column), value in np.ndenumerate(values):
            colour = "white" if value < DARK else "black"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=6.5, color=colour)
        episodes = ", ".join(str(n) for n in scores.x)
        bar = made.colorbar(image, ax=axes, location="bottom", aspect=50, pad=0.01)
        bar.set_label(f"normalized score, mean over seeds, clipped, mean over {episodes} episodes")
    return [path]
