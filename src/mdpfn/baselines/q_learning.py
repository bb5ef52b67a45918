"""Tabular Q-learning: ε-greedy with an optimistic start (Watkins 1989), and UCB-H (Jin et al. 2018)."""

from math import log, sqrt

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.evidence import Novelty, Statistics, Transition
from mdpfn.online.learner import Learner
from mdpfn.planners.policies import best_actions, one_hot
from mdpfn.planners.problem_info import ProblemInfo


class QLearning(Learner):
    """ε-greedy Q-learning with an optimistic start (B.3).

    Q(s, a) ← Q(s, a) + α (r + γ max_a' Q(s', a') − Q(s, a)), from Q = Vmax = max|r| / (1 − γ) on. Where the
    range of rewards is not known, Vmax follows the largest reward observed. Plain lists hold Q: single entries are read
    and written far more often than the whole.
    """

    epsilon = 0.1
    learning_rate = 0.1

    def __init__(
        self, evidence: Statistics, info: ProblemInfo, rng: np.random.Generator, **settings: float | None
    ) -> None:
        super().__init__(evidence, info, rng, **settings)
        self.v_max = self.reward_scale / (1 - self.discount)
        self._paid = bool(np.isfinite(info.reward_high[0]))  # whether the scale of rewards is known at all
        self.q = [[self.v_max] * evidence.n_actions for _ in range(evidence.n_states)]

    def act(self, state: int) -> int:
        """The first best action, or with probability ε any."""
        if self.rng.random() < self.epsilon:
            return self.any_action(state)
        values = self._allowed_values(state)
        return values.index(max(values))

    def _allowed_values(self, state: int) -> list[float]:
        """Q of the actions of a state, −∞ for those that do not exist there."""
        values, mask = self.q[state], self.evidence.mask(state)
        return values if mask is None else [q if may else -np.inf for q, may in zip(values, mask, strict=True)]

    def observe(self, transition: Transition) -> Novelty:
        """Update Q(s, a) by one transition."""
        novelty = super().observe(transition)
        if novelty.new_scale:
            self._follow_scale(transition, novelty)
        self._paid = self._paid or transition.reward != 0
        self.learn(transition, novelty.n_visits)
        return novelty

    def learn(self, transition: Transition, n_visits: float) -> None:
        """The update of Q."""
        state, action, reward, next_state, terminated, _ = transition
        target = reward if terminated else reward + self.discount * max(self._allowed_values(next_state))
        values = self.q[state]
        values[action] += self.learning_rate * (target - values[action])

    def plan(self) -> Floats:
        """(S, A) the greedy policy."""
        q = np.array([self._allowed_values(state) for state in range(self.evidence.n_states)])
        return one_hot(best_actions(q), self.evidence.n_actions)

    def _follow_scale(self, transition: Transition, novelty: Novelty) -> None:
        """Keep the start value in the units of the rewards.

        Up to the first reward that is not 0 all of Q is a share of the start value and scales with it; later
        only what was never tried is still at it.
        """
        before, self.v_max = self.v_max, self.reward_scale / (1 - self.discount)
        q = np.array(self.q)
        if self._paid:
            n_visits = self.evidence.table().visits_table()
            if novelty.n_visits == 1:
                n_visits[transition.state, transition.action] = 0
            q[n_visits == 0] = self.v_max
        else:
            q *= self.v_max / before
        self.q = q.tolist()


class UCBH(QLearning):
    """Q-learning with an upper-confidence bonus instead of random actions (Jin et al. 2018, discounted).

    Q(s, a) ← (1 − α_t) Q(s, a) + α_t (r + γ V(s') + b_t) at the t-th visit, with V = min(Vmax, max_a Q),
    α_t = (H + 1) / (H + t), b_t = c max|r| √(H log(S·A·t + 1) / t) and H = 1 / (1 − γ) in the place of the horizon
    (the form of Dong et al. 2019).
    """

    epsilon = 0.0
    bonus = 0.01

    def learn(self, transition: Transition, n_visits: float) -> None:
        """The update of Q."""
        state, action, reward, next_state, terminated, _ = transition
        horizon, n_pairs = 1 / (1 - self.discount), self.evidence.n_states * self.evidence.n_actions
        bonus = self.bonus * self.reward_scale * sqrt(horizon * log(n_pairs * n_visits + 1) / n_visits)
        future = 0.0 if terminated else self.discount * min(self.v_max, max(self._allowed_values(next_state)))
        values = self.q[state]
        values[action] += (horizon + 1) / (horizon + n_visits) * (reward + future + bonus - values[action])
