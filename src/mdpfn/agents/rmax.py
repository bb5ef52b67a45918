"""R-MAX (Brafman and Tennenholtz 2002): what is not known well enough is as good as anything can be."""

from __future__ import annotations

import numpy as np

from mdpfn.agents.base import Transition
from mdpfn.agents.estimated_model import ACTING_SWEEPS, EstimatedModel
from mdpfn.agents.model_based import ModelBasedAgent
from mdpfn.agents.policies import best_actions
from mdpfn.agents.reward_range import RewardRange, largest_reward
from mdpfn.arrays import Ints
from mdpfn.statistics import Statistics


class RMax(ModelBasedAgent):
    """Acts greedily on Q = r̂ + γ P̂ V where N(s, a) ≥ `known_visits`, Q = Vmax = max|r| / (1 − γ) elsewhere.

    It plans at the start of an episode and whenever a pair becomes known.
    """

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        *,
        discount: float,
        rng: np.random.Generator,
        reward_range: RewardRange | None = None,
        known_visits: int = 2,
        statistics: Statistics | None = None,
    ) -> None:
        super().__init__(n_states, n_actions, discount=discount, rng=rng, statistics=statistics)
        self.reward_range, self.known_visits = reward_range, known_visits
        self._optimistic_value = np.zeros(n_states)
        self._n_visits: list[float] = EstimatedModel.most_likely(self.statistics).n_visits.tolist()

    def observe(self, transition: Transition) -> None:
        """Learn from one transition; what becomes known by it changes the policy."""
        super().observe(transition)
        pair = transition.state * self.n_actions + transition.action
        self._n_visits[pair] += 1
        if self._n_visits[pair] == self.known_visits:
            self._actions = None

    def choose_actions(self) -> Ints:
        """(S,) the greedy actions of the optimistic model."""
        model = EstimatedModel.most_likely(self.statistics)
        q = model.solve(
            self.discount,
            pinned=model.n_visits < self.known_visits,
            pinned_value=largest_reward(self.statistics, self.reward_range) / (1 - self.discount),
            max_sweeps=ACTING_SWEEPS,
            initial_value=self._optimistic_value,
        )
        self._optimistic_value = q.max(axis=1)
        return best_actions(q)
