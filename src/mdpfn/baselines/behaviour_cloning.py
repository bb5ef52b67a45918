"""Behaviour cloning: do what was done in the data."""

from mdpfn.arrays import Floats, normalized
from mdpfn.online.learner import Learner


class BehaviourCloning(Learner):
    """Imitates the policy that collected the data."""

    def act(self, state: int) -> int:
        """An action of the policy: it does not explore."""
        return int(self.rng.choice(self.evidence.n_actions, p=self.plan()[state]))

    def plan(self) -> Floats:
        """(S, A) π(a | s) = N(s, a) / N(s); any action in states without data."""
        n_visits = self.evidence.table().visits_table()
        n_visits[n_visits.sum(axis=1) == 0] = 1.0
        return normalized(n_visits)
