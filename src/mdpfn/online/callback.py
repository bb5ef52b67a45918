"""Callbacks with the interface of Stable-Baselines3, whose own callbacks can be passed as well."""

from collections.abc import Callable
from typing import Any, TypeAlias

from mdpfn.errors import MdpfnError, shown
from mdpfn.online.history import History


class Callback:
    """Override what is needed; a rollout is an episode. `_on_step` ends the run by returning False.

    `model` is the agent, `num_timesteps` the transitions it has observed, `n_calls` the steps of this run, and
    `locals` holds "dones" ([whether an episode ended with this step]) and "history".
    """

    model: Any = None
    n_calls = num_timesteps = 0

    def __init__(self) -> None:
        self.locals: dict[str, Any] = {}
        self.globals: dict[str, Any] = {}

    def init_callback(self, model: Any) -> None:
        """Take note of the agent."""
        self.model = model
        self._init_callback()

    def on_training_start(self, locals_: dict[str, Any], globals_: dict[str, Any]) -> None:
        """Called before the first step."""
        self.locals, self.globals = locals_, globals_
        self.num_timesteps = self.model.num_timesteps
        self._on_training_start()

    def on_rollout_start(self) -> None:
        """Called before every episode."""
        self._on_rollout_start()

    def on_step(self) -> bool:
        """Called after every step."""
        self.n_calls += 1
        self.num_timesteps = self.model.num_timesteps
        return self._on_step()

    def on_rollout_end(self) -> None:
        """Called after every episode."""
        self._on_rollout_end()

    def on_training_end(self) -> None:
        """Called at the end of the run."""
        self._on_training_end()

    def _init_callback(self) -> None: ...

    def _on_training_start(self) -> None: ...

    def _on_rollout_start(self) -> None: ...

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None: ...

    def _on_training_end(self) -> None: ...


def goes_on(answer: Any) -> bool:
    """Whether a run goes on after this answer of a callback; None stands for yes, and comparisons of NumPy count."""
    return answer is None or bool(answer)


class _Function(Callback):
    """A function of (locals, globals), called after every step."""

    def __init__(self, function: Callable[[dict[str, Any], dict[str, Any]], bool | None]) -> None:
        super().__init__()
        self.function = function

    def _on_step(self) -> bool:
        return goes_on(self.function(self.locals, self.globals))


CallbackLike: TypeAlias = Any
"""A `Callback`, one of Stable-Baselines3's, a function of (locals, globals), a list of these, or None."""


class Callbacks:
    """All callbacks of a run, called together."""

    def __init__(self, given: CallbackLike, agent: Any, history: History) -> None:
        several = given if isinstance(given, list | tuple) else [] if given is None else [given]
        for one in several:
            if not (hasattr(one, "on_step") or callable(one)) or isinstance(one, type):
                limit = "it must be an mdpfn.Callback, or a function of (locals, globals)"
                raise MdpfnError("callback", shown(one), limit, "make one, or leave it out")
        self.callbacks = [one if hasattr(one, "on_step") else _Function(one) for one in several]
        self.history, self._n_episodes = history, len(history.returns)
        self.locals: dict[str, Any] = {"self": agent, "history": history, "dones": [False]}
        for callback in self.callbacks:
            callback.init_callback(agent)

    def start(self) -> None:
        """Call them at the start of the run."""
        for callback in self.callbacks:
            callback.on_training_start(self.locals, {})
            callback.on_rollout_start()

    def step(self) -> bool:
        """Call them after a step; returns whether the run goes on."""
        ended = len(self.history.returns) > self._n_episodes
        self._n_episodes = len(self.history.returns)
        self.locals["dones"] = [ended]
        wanted = True
        for callback in self.callbacks:
            if hasattr(callback, "update_locals"):
                callback.update_locals(self.locals)
            wanted = goes_on(callback.on_step()) and wanted
            if ended:
                callback.on_rollout_end()
                if wanted:
                    callback.on_rollout_start()
        return wanted

    def end(self) -> None:
        """Call them at the end of the run."""
        for callback in self.callbacks:
            callback.on_training_end()
