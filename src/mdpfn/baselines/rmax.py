"""R-MAX (Brafman and Tennenholtz 2002): pairs with few visits count as the best possible."""

from mdpfn.arrays import Ints
from mdpfn.baselines.model_based import ACTING_SWEEPS, ModelBasedLearner
from mdpfn.evidence import Novelty, Transition
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.planners.policies import best_actions


class RMax(ModelBasedLearner):
    """Acts greedily on Q = r̂ + γ P̂ V where N(s, a) ≥ `known_visits`, Q = Vmax = max|r| / (1 − γ) elsewhere.

    It plans at the start of an episode and whenever a pair becomes known.
    """

    known_visits = 2

    def observe(self, transition: Transition) -> Novelty:
        """Learn from one transition, and plan again if its pair becomes known."""
        novelty = super().observe(transition)
        if novelty.n_visits == self.known_visits:
            self._actions = None
        return novelty

    def choose_actions(self) -> Ints:
        """(S,) the greedy actions of the optimistic model."""
        model = EmpiricalModel.of(self.evidence.table())
        q = self.solve(
            model,
            "optimistic",
            unknown=model.table.n_visits < self.known_visits,
            unknown_value=self.reward_scale / (1 - self.discount),
            max_sweeps=ACTING_SWEEPS,
        )
        return best_actions(q)
