"""How episodes went: returns, lengths and first states."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from mdpfn.evidence import State


@dataclass
class UnderWay:
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
    under_way: dict[int, UnderWay] = field(default_factory=dict)  # by environment

    def note(self, state: State, reward: float, ended: bool, environment: int = 0) -> None:
        """One more step of an episode."""
        episode = self.under_way.get(environment)
        if episode is None:
            if not isinstance(state, np.ndarray):  # vectors hardly ever come back
                self.start_states[state] += 1
            episode = self.under_way[environment] = UnderWay()
        episode.discounted += self.discount**episode.length * float(reward)
        episode.total += float(reward)
        episode.length += 1
        if ended:
            self.returns.append(episode.total)
            self.discounted_returns.append(episode.discounted)
            self.lengths.append(episode.length)
            del self.under_way[environment]
