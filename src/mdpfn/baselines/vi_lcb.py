"""VI-LCB (Rashidinejad et al. 2021): plan on logged data as if the world were as bad as it may be."""

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.baselines.model_based import ModelBasedLearner
from mdpfn.model.empirical import EmpiricalModel

CONFIDENCE = 0.1  # δ


class VILCB(ModelBasedLearner):
    """Exploits Q = r̂ − b + γ P̂ V with b(s, a) = c √(log(S·A / δ) / N(s, a)), `penalty` c in units of reward (B.4).

    Values stay within ± Vmax = reward_scale / (1 − γ), pairs never visited are pinned to −Vmax, and terminal
    states are worth 0.
    """

    penalty = 0.1

    def empirical_q(self) -> Floats:
        """(S, A) a lower confidence bound of Q*."""
        model = EmpiricalModel.of(self.evidence.table())
        confidence = np.log(self.evidence.n_states * self.evidence.n_actions / CONFIDENCE)
        v_max = self.reward_scale / (1 - self.discount)
        penalty = self.penalty * np.sqrt(confidence / model.table.n_visits)
        return self.solve(model, "pessimistic", bonus=-penalty, unknown_value=-v_max, limit=v_max)
