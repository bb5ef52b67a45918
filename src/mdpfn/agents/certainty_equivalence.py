"""Certainty equivalence: plan as if the empirical model were the truth, online or from logged data."""

from __future__ import annotations

import numpy as np

from mdpfn.agents.estimated_model import ACTING_SWEEPS
from mdpfn.agents.model_based import ModelBasedAgent
from mdpfn.agents.policies import best_actions
from mdpfn.arrays import Ints
from mdpfn.statistics import Statistics


class CertaintyEquivalence(ModelBasedAgent):
    """Acts greedily on the empirical model, and at random with probability ε."""

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        *,
        discount: float,
        rng: np.random.Generator,
        epsilon: float = 0.1,
        statistics: Statistics | None = None,
    ) -> None:
        super().__init__(n_states, n_actions, discount=discount, rng=rng, statistics=statistics)
        self.epsilon = epsilon

    def act(self, state: int) -> int:
        """The action of this episode's policy, or with probability ε any."""
        if self.rng.random() < self.epsilon:
            return int(self.rng.integers(self.n_actions))
        return super().act(state)

    def choose_actions(self) -> Ints:
        """(S,) the greedy actions of the empirical model."""
        return best_actions(self.empirical_q(ACTING_SWEEPS))
