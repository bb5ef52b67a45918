"""A live table in the terminal, with a learning curve in every row."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table

from mdpfn.arrays import Floats
from mdpfn.online.history import History
from mdpfn.pictures import SMOOTHING, moving_average
from mdpfn.progress import Progress, duration

BLOCKS = "▁▂▃▄▅▆▇█"
CURVE_WIDTH = 24


class LiveTable:
    """One row per agent: episodes so far, returns, and the curve of their moving average."""

    def __init__(self, title: str, episodes: int, console: Console | None = None) -> None:
        self.title, self.episodes = title, episodes
        self._histories: dict[str, History] = {}
        self._totals: dict[str, int] = {}  # episodes in the end, with those of earlier runs
        self.final_returns: dict[str, float] = {}
        self._live = Live(get_renderable=self._table, console=console, refresh_per_second=8)
        self._lines: dict[str, Progress] = {}  # where nobody sees the table before it is complete

    def __enter__(self) -> LiveTable:
        self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)
        if not self._live.console.is_terminal:
            self._live.console.line()

    def update(self, name: str, history: History, lived: int = 0) -> None:
        """Show how far this agent is, which lived so many episodes before."""
        self._histories[name], self._totals[name] = history, lived + self.episodes
        if self._live.console.is_terminal:
            return
        done = len(history.returns)
        if name not in self._lines:  # the clock starts now, when so many are done
            self._lines[name] = Progress(f"{name}: episode", self._totals[name], done=done)
        self._lines[name].update(done)

    def finish(self, name: str, final_return: float) -> None:
        """Show the return of the final policy of an agent."""
        self.final_returns[name] = final_return

    def _table(self) -> Table:
        table = Table(
            title=self.title,
            caption=f"returns: mean of {SMOOTHING} episodes now and over time, while exploring; of the final policy",
        )
        for column in ("agent", "episode", "exploring", "final", "time"):
            table.add_column(column, justify="left" if column == "agent" else "right", no_wrap=True)
        table.add_column(f"episodes 1 to {max(self._totals.values(), default=self.episodes)}", width=CURVE_WIDTH)
        curves = {name: moving_average(np.array(h.returns)) for name, h in self._histories.items() if h.returns}
        for name, curve in curves.items():
            low = min(float(other.min()) for other in curves.values())
            high = max(float(other.max()) for other in curves.values())
            history = self._histories[name]
            final = f"{self.final_returns[name]:.3g}" if name in self.final_returns else "…"
            left = history.seconds * (self._totals[name] - len(curve)) / len(curve)
            time = f"{history.seconds:.1f} s" if left <= 0 else f"{duration(left)} left"
            row = (name, str(len(curve)), f"{curve[-1]:.3g}", final, time)
            table.add_row(*row, sparkline(curve, low, high, max(self._totals.values())))
        return table


def sparkline(curve: Floats, low: float, high: float, episodes: int) -> str:
    """The curve in block characters from `low` to `high`, as wide as its share of all `episodes`."""
    width = max(1, round(CURVE_WIDTH * len(curve) / episodes))
    heights = np.array([part.mean() for part in np.array_split(curve, min(width, len(curve)))])
    level = np.round((heights - low) / (high - low) * (len(BLOCKS) - 1)) if high > low else np.zeros(len(heights))
    return "".join(BLOCKS[int(i)] for i in level)
