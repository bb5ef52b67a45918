"""How episodes went: returns, lengths and first states."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class History:
    """Finished episodes, those under way (one per environment that runs at the same time), and the time spent."""

    returns: list[float] = field(default_factory=list)  # undiscounted, as Gymnasium counts them
    lengths: list[int] = field(default_factory=list)
    start_states: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0
    under_way: dict[int, tuple[float, int]] = field(default_factory=dict)  # environment -> return and length so far

    def note(self, state: int, reward: float, ended: bool, environment: int = 0) -> None:
        """One more step of an episode."""
        so_far = self.under_way.get(environment)
        if so_far is None:
            self.start_states[state] += 1
            so_far = (0.0, 0)
        total, length = so_far[0] + float(reward), so_far[1] + 1
        if ended:
            self.returns.append(total)
            self.lengths.append(length)
            self.under_way.pop(environment, None)
        else:
            self.under_way[environment] = (total, length)
