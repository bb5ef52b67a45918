"""Any action at any time: the score 0 of every benchmark."""

from __future__ import annotations

import numpy as np

from mdpfn.agents.base import Agent
from mdpfn.arrays import Floats


class Uniform(Agent):
    """Learns nothing."""

    def act(self, state: int) -> int:
        """Any action."""
        return int(self.rng.integers(self.n_actions))

    def plan(self) -> Floats:
        """(S, A) equal probabilities."""
        return np.full((self.n_states, self.n_actions), 1 / self.n_actions)
