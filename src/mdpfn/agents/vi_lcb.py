"""VI-LCB (Rashidinejad et al. 2021): plan on logged data as if the world were as bad as it may be."""

from __future__ import annotations

import numpy as np

from mdpfn.agents.estimated_model import EstimatedModel
from mdpfn.agents.offline import OfflineAgent
from mdpfn.agents.policies import greedy
from mdpfn.arrays import Floats
from mdpfn.statistics import Statistics

CONFIDENCE = 0.1  # δ


class VILCB(OfflineAgent):
    """Exploits Q = r̂ − b + γ P̂ V with b(s, a) = c √(log(S·A / δ) / N(s, a)), `penalty` c in units of reward (B.4).

    Values stay within ± Vmax = reward_scale / (1 − γ), pairs never visited are pinned to −Vmax, and terminal
    states are worth 0.
    """

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        *,
        discount: float,
        rng: np.random.Generator,
        penalty: float = 0.1,
        statistics: Statistics | None = None,
    ) -> None:
        super().__init__(n_states, n_actions, discount=discount, rng=rng, statistics=statistics)
        self.penalty = penalty

    def plan(self) -> Floats:
        """(S, A) the greedy policy of the pessimistic model."""
        return greedy(self.pessimistic_q())

    def pessimistic_q(self) -> Floats:
        """(S, A) a lower confidence bound of Q*."""
        model = EstimatedModel.most_likely(self.statistics)
        confidence = np.log(self.n_states * self.n_actions / CONFIDENCE)
        top = self.statistics.reward_scale / (1 - self.discount)
        return model.solve(
            self.discount,
            bonus=-self.penalty * np.sqrt(confidence / np.maximum(model.n_visits, 1)),
            limit=top,
            pinned=model.n_visits == 0,
            pinned_value=-top,
        )
