"""UCB-VI (Azar et al. 2017) in its discounted, stationary form: plan as if the world were as good as it may be."""

from __future__ import annotations

import numpy as np

from mdpfn.agents.estimated_model import ACTING_SWEEPS, EstimatedModel
from mdpfn.agents.model_based import ModelBasedAgent
from mdpfn.agents.policies import best_actions
from mdpfn.agents.reward_range import RewardRange, largest_reward
from mdpfn.arrays import Floats, Ints
from mdpfn.statistics import Statistics

RELATIVE_BONUS = 0.1  # of the largest reward


class UCBVI(ModelBasedAgent):
    """Acts greedily on Q = min(r̂ + b + γ P̂ V, Vmax) with b(s, a) = c √(log(S·A·episode + 1) / N(s, a)) (B.3).

    Pairs never visited have the value Vmax = max|r| / (1 − γ). `bonus` is c in units of reward, by default a
    tenth of the largest reward.
    """

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        *,
        discount: float,
        rng: np.random.Generator,
        reward_range: RewardRange | None = None,
        bonus: float | None = None,
        statistics: Statistics | None = None,
    ) -> None:
        super().__init__(n_states, n_actions, discount=discount, rng=rng, statistics=statistics)
        self.reward_range, self.bonus = reward_range, bonus
        self.episode = 0
        self._optimistic_value = np.zeros(n_states)

    def choose_actions(self) -> Ints:
        """(S,) the greedy actions of the optimistic model."""
        self.episode += 1
        q = self.optimistic_q()
        self._optimistic_value = q.max(axis=1)
        return best_actions(q)

    def optimistic_q(self) -> Floats:
        """(S, A) an upper confidence bound of Q*."""
        model = EstimatedModel.most_likely(self.statistics)
        largest = largest_reward(self.statistics, self.reward_range)
        c = RELATIVE_BONUS * largest if self.bonus is None else self.bonus
        confidence = np.log(self.n_states * self.n_actions * self.episode + 1)
        top = largest / (1 - self.discount)
        return model.solve(
            self.discount,
            bonus=c * np.sqrt(confidence / np.maximum(model.n_visits, 1)),
            limit=top,
            pinned=model.n_visits == 0,
            pinned_value=top,
            max_sweeps=ACTING_SWEEPS,
            initial_value=self._optimistic_value,
        )
