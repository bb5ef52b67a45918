"""Any action at any time: the score 0 of every benchmark."""

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.online.learner import Learner


class Uniform(Learner):
    """Takes every action with the same probability, and learns nothing."""

    def act(self, state: int) -> int:
        """Any action."""
        return self.any_action(state)

    def plan(self) -> Floats:
        """(S, A) equal probabilities."""
        n_actions = self.evidence.n_actions
        return np.full((self.evidence.n_states, n_actions), 1 / n_actions)
