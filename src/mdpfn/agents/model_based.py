"""Agents that learn a model: they explore in different ways and exploit in the same one."""

from __future__ import annotations

import numpy as np

from mdpfn.agents.episodic import EpisodicAgent
from mdpfn.agents.estimated_model import EstimatedModel
from mdpfn.agents.policies import greedy
from mdpfn.arrays import Floats
from mdpfn.statistics import Statistics


class ModelBasedAgent(EpisodicAgent):
    """Exploits the empirical model as if it were the truth."""

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        *,
        discount: float,
        rng: np.random.Generator,
        statistics: Statistics | None = None,
    ) -> None:
        super().__init__(n_states, n_actions, discount=discount, rng=rng, statistics=statistics)
        self._value = np.zeros(n_states)

    def empirical_q(self, max_sweeps: int | None = None) -> Floats:
        """(S, A) Q = r̂ + γ P̂ V of the empirical model, starting where the last call ended."""
        model = EstimatedModel.most_likely(self.statistics)
        q = model.solve(self.discount, max_sweeps=max_sweeps, initial_value=self._value)
        self._value = q.max(axis=1)
        return q

    def plan(self) -> Floats:
        """(S, A) the greedy policy of the empirical model."""
        return greedy(self.empirical_q())
