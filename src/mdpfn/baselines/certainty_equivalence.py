"""Certainty equivalence: plan as if the data were all there is to know, online or from logged data."""

from mdpfn.arrays import Floats
from mdpfn.baselines.model_based import ModelBasedLearner
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.planners.classical import CERTAINTY_EQUIVALENT, estimate


class CertaintyEquivalence(ModelBasedLearner):
    """Acts by the certainty-equivalent planner (`planners.classical`), and at random with probability ε."""

    epsilon = 0.1

    def act(self, state: int) -> int:
        """The action of this episode's policy, or with probability ε any."""
        if self.rng.random() < self.epsilon:
            return self.any_action(state)
        return super().act(state)

    def empirical_q(self) -> Floats:
        """(S, A) Q of the planner; −∞ for untried actions of known states."""
        estimates = estimate(EmpiricalModel.of(self.evidence.table()), self.info, (CERTAINTY_EQUIVALENT,))
        return estimates.certainty_equivalent_table().reshape(self.evidence.n_states, -1)
