"""Behaviour cloning: do what was done in the data."""

from __future__ import annotations

import numpy as np

from mdpfn.agents.offline import OfflineAgent
from mdpfn.arrays import Floats


class BehaviourCloning(OfflineAgent):
    """Imitates whoever collected the data."""

    def plan(self) -> Floats:
        """(S, A) π(a | s) = N(s, a) / N(s); any action in states without data."""
        z = self.statistics.batch()
        n_visits = np.zeros(self.n_states * self.n_actions)
        n_visits[z.pair] = z.n_visits
        by_state = n_visits.reshape(self.n_states, self.n_actions)
        by_state[by_state.sum(axis=1) == 0] = 1.0
        policy: Floats = by_state / by_state.sum(axis=1, keepdims=True)
        return policy
