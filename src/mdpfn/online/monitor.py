"""Callbacks and the progress line of a run."""

from __future__ import annotations

from typing import Any

from mdpfn.errors import MdpfnError
from mdpfn.online.callback import CallbackLike, Callbacks, goes_on
from mdpfn.online.history import History
from mdpfn.online.problem import OnEpisode
from mdpfn.progress import Progress, somebody_watches

LAST = 10  # episodes whose mean return is shown


class RunMonitor:
    """Hooks for `Problem.run`, inside whose context it runs; `shown=None` shows progress in terminals and notebooks."""

    def __init__(
        self, agent: Any, episodes: int, callback: CallbackLike, on_episode: OnEpisode | None, shown: bool | None
    ) -> None:
        history: History = agent.problem.history
        if on_episode is not None and not callable(on_episode):
            limit = "it must be a function of the history"
            raise MdpfnError("on_episode", f"of type {type(on_episode).__name__}", limit, "give one, or leave it out")
        self.callbacks, self.on_episode = Callbacks(callback, agent, history), on_episode
        self.begun_at = len(history.returns)
        self.progress = Progress("episode", episodes) if (somebody_watches() if shown is None else shown) else None

    @property
    def hooks(self) -> dict[str, Any]:
        """Arguments for `Problem.run`; without callbacks, nothing is called after every step."""
        return {"on_episode": self._episode, "on_step": self.callbacks.step if self.callbacks.callbacks else None}

    def _episode(self, history: History) -> bool:
        if self.progress is not None:
            last = history.returns[self.begun_at :][-LAST:]
            note = f"mean return of the last {len(last)}: {sum(last) / len(last):.4g}"
            self.progress.update(len(history.returns) - self.begun_at, note)
        return self.on_episode is None or goes_on(self.on_episode(history))

    def __enter__(self) -> RunMonitor:
        self.callbacks.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self.progress is not None:
            self.progress.close()
        if kind is None:
            self.callbacks.end()
