"""An episode under way, with the discounted return since some of its moments, by which plans are compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpfn.arrays import Floats

MOST_MOMENTS = 32  # of one episode


@dataclass(eq=False)
class Underway:
    """An episode that has not ended yet: it goes on from its last observation."""

    moments: Floats  # (moments, d) observations, evenly in time, the first one included
    returns: Floats  # (moments,) discounted rewards since then
    fades: Floats  # (moments,) γ^(steps since then)
    last: Floats  # (d,)
    n_steps: int = 0
    every: int = 1  # steps from one moment to the next

    @classmethod
    def starting(cls, x: Floats) -> Underway:
        """The episode that begins with an observation."""
        return cls(np.zeros((0, len(x))), np.zeros(0), np.zeros(0), x)

    def step(self, reward: float, y: Floats, discount: float) -> None:
        """One more step, to y; when there are many moments, every other one is forgotten."""
        if self.n_steps % self.every == 0:
            self.moments = np.concatenate([self.moments, self.last[None]])
            self.returns, self.fades = np.append(self.returns, 0.0), np.append(self.fades, 1.0)
            if len(self.returns) > MOST_MOMENTS:
                self.moments, self.returns, self.fades = self.moments[::2], self.returns[::2], self.fades[::2]
                self.every *= 2
        self.returns = self.returns + self.fades * reward
        self.fades = self.fades * discount
        self.last, self.n_steps = y, self.n_steps + 1
