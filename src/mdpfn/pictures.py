"""Pictures in files, of learning curves and of anything else: matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.errors import MdpfnError, check_installed
from mdpfn.storage import cannot_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMOOTHING = 10  # episodes in the moving average of a learning curve


def moving_average(returns: Floats) -> Floats:
    """(episodes,) mean of the last `SMOOTHING` returns, of fewer at the beginning."""
    total = np.concatenate([[0.0], np.cumsum(returns)])
    end = np.arange(1, len(total))
    start = np.maximum(end - SMOOTHING, 0)
    mean: Floats = (total[end] - total[start]) / (end - start)
    return mean


def plot_returns(returns: Mapping[str, Floats], path: Path, title: str = "") -> None:
    """Draw one learning curve per name: every return as a dot, their moving average as a line."""
    figure = new_picture(7, 4)
    axes = figure.subplots()
    for name, values in returns.items():
        episode = np.arange(1, len(values) + 1)
        (line,) = axes.plot(episode, moving_average(values), label=name)
        axes.plot(episode, values, ".", color=line.get_color(), alpha=0.25, markersize=4)
    axes.set(xlabel="episode", ylabel=f"return (line: mean of the last {SMOOTHING})", title=title)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    save_picture(figure, path)


def new_picture(width: float, height: float) -> Figure:
    """An empty figure of this size in inches."""
    check_installed("matplotlib", "drawing", "plot")
    from matplotlib.figure import Figure  # late: it takes a third of a second

    return Figure(figsize=(width, height), layout="constrained")


def save_picture(figure: Figure, path: Path) -> None:
    """Write a figure to a file (PNG, PDF or SVG by its name), making its directory if need be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise cannot_write(path, error) from error
    except ValueError as error:
        raise MdpfnError("path", repr(str(path)), f"no picture can be written there ({error})", "use .png") from None
