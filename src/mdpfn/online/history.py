"""How episodes went: returns, lengths and first states."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdpfn.evidence import State


@dataclass
class OpenEpisode:
    """An episode that has not ended yet."""

    total: float = 0.0
    discounted: float = 0.0
    length: int = 0


@dataclass
class History:
    """Finished episodes, those under way (one per environment that runs at the same time), and the time spent."""

    discount: float = 1.0
    returns: list[float] = field(default_factory=list)  # undiscounted, as Gymnasium counts them
    discounted_returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    start_states: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0
    under_way: dict[int, OpenEpisode] = field(default_factory=dict)  # by environment

    def before(self, state: State, environment: int = 0) -> tuple[Any, ...]:
        """What `take_back` needs to undo a step that is about to be noted."""
        episode = self.under_way.get(environment)
        if episode is not None:
            return environment, len(self.returns), (episode.total, episode.discounted, episode.length), None, None
        starts = None if isinstance(state, np.ndarray) else self.start_states.get(state)
        return environment, len(self.returns), None, state, starts

    def take_back(self, before: tuple[Any, ...]) -> None:
        """Undo a step, even if it was noted only in part."""
        environment, n_episodes, episode, state, starts = before
        for column in (self.returns, self.discounted_returns, self.lengths):
            del column[n_episodes:]
        if episode is not None:
            self.under_way[environment] = OpenEpisode(*episode)
            return
        self.under_way.pop(environment, None)
        if starts is not None:
            self.start_states[state] = starts
        elif not isinstance(state, np.ndarray):
            self.start_states.pop(state, None)

    def note(self, state: State, reward: float, ended: bool, environment: int = 0) -> None:
        """Add one step to the episode of an environment."""
        episode = self.under_way.get(environment)
        if episode is None:
            if not isinstance(state, np.ndarray):  # vectors hardly ever come back
                self.start_states[state] += 1
            episode = self.under_way[environment] = OpenEpisode()
        episode.discounted += self.discount**episode.length * float(reward)
        episode.total += float(reward)
        episode.length += 1
        if ended:
            self.returns.append(episode.total)
            self.discounted_returns.append(episode.discounted)
            self.lengths.append(episode.length)
            del self.under_way[environment]
