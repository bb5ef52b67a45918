"""SPIBB (Laroche et al. 2019): deviate from the logged policy only in pairs with enough visits."""

import numpy as np

from mdpfn.arrays import Floats, sums_by
from mdpfn.baselines.behaviour_cloning import BehaviourCloning
from mdpfn.model.empirical import EmpiricalModel

MOST_IMPROVEMENTS = 100
IMPROVEMENT = 1e-9  # relative; less is rounding


class SPIBB(BehaviourCloning):
    """Π_b-SPIBB by policy iteration on the empirical model.

    A pair with fewer than `least_visits` N∧ visits keeps the probability that the data gave it; the rest of the
    probability of a state goes to the best of its other actions. The policy of the data is the one that visits tell
    (Simão et al. 2020), uniform in states that were never left.
    """

    least_visits = 10.0

    def plan(self) -> Floats:
        """(S, A) the improved policy."""
        table, logged = self.evidence.table(), super().plan()
        model, free = EmpiricalModel.of(table), table.visits_table() >= self.least_visits
        kept, rest = np.where(free, 0.0, logged), np.where(free, logged, 0.0).sum(axis=1)
        policy, before = logged, -np.inf
        states = np.flatnonzero(free.any(axis=1))
        for _ in range(MOST_IMPROVEMENTS):
            value = model.policy_value(policy, model.table.mean_reward, self.discount)
            total = float(value.sum())
            if total <= before + IMPROVEMENT * (1 + abs(before)):
                break
            before = total
            q = np.where(free, self._q(value), -np.inf)
            policy = kept.copy()
            policy[states, q.argmax(axis=1)[states]] += rest[states]
        return policy

    def _q(self, value: Floats) -> Floats:
        """(S, A) r̂ + γ P̂ V of visited pairs, 0 of others."""
        z = self.evidence.table()
        later = sums_by(z.transition_row, z.successor_probs * z.going_on * value[z.successor], len(z.pair))
        q = np.zeros(self.evidence.n_states * self.evidence.n_actions)
        q[z.pair] = z.mean_reward + self.discount * later
        return q.reshape(self.evidence.n_states, -1)
