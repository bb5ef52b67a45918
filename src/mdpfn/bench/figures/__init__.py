"""Figures and tables, drawn from result files only. Adding a figure: one file, and one line here."""

from pathlib import Path

from mdpfn.bench.figures import (
    calibration,
    compute,
    depth,
    leaderboard_curves,
    learning_curves,
    offline,
    posterior,
    sizes,
)
from mdpfn.bench.figures.data import read
from mdpfn.bench.figures.tables import tables, tables_in

FIGURES = (
    learning_curves, offline, leaderboard_curves, depth, posterior, calibration, sizes, compute,
)  # fmt: skip


def draw_figures(results: Path, directory: Path) -> list[Path]:
    """The files of all figures for which `results` has rows."""
    return [path for figure in FIGURES if (rows := read(results / figure.CSV)) for path in figure.draw(rows, directory)]


__all__ = ["FIGURES", "draw_figures", "tables", "tables_in"]
