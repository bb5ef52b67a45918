"""UCB-VI (Azar et al. 2017) in its discounted, stationary form: plan as if the world were as good as it may be."""

import numpy as np

from mdpfn.arrays import Floats, Ints
from mdpfn.baselines.model_based import ACTING_SWEEPS, ModelBasedLearner
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.planners.policies import best_actions

RELATIVE_BONUS = 0.1  # of the largest reward


class UCBVI(ModelBasedLearner):
    """Acts greedily on Q = min(r̂ + b + γ P̂ V, Vmax) with b(s, a) = c √(log(S·A·episode + 1) / N(s, a)) (B.3).

    Pairs never visited have the value Vmax = max|r| / (1 − γ). `bonus` is c in units of reward, by default a
    tenth of the largest reward.
    """

    bonus: float | None = None
    episode = 0

    def choose_actions(self) -> Ints:
        """(S,) the greedy actions of the optimistic model."""
        self.episode += 1
        return best_actions(self.optimistic_q())

    def optimistic_q(self) -> Floats:
        """(S, A) an upper confidence bound of Q*."""
        model = EmpiricalModel.of(self.evidence.table())
        c = RELATIVE_BONUS * self.reward_scale if self.bonus is None else self.bonus
        confidence = np.log(self.evidence.n_states * self.evidence.n_actions * self.episode + 1)
        v_max = self.reward_scale / (1 - self.discount)
        return self.solve(
            model,
            "optimistic",
            bonus=c * np.sqrt(confidence / model.table.n_visits),
            unknown_value=v_max,
            limit=v_max,
            max_sweeps=ACTING_SWEEPS,
        )
