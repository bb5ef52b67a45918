"""Tabular Q-learning: ε-greedy with an optimistic start (Watkins 1989), and UCB-H (Jin et al. 2018)."""

from __future__ import annotations

from math import log, sqrt

import numpy as np

from mdpfn.agents.base import Agent, Transition
from mdpfn.agents.policies import greedy
from mdpfn.agents.reward_range import RewardRange, largest_reward
from mdpfn.arrays import Floats


class QLearning(Agent):
    """Q(s, a) ← Q(s, a) + α (r + γ max_a' Q(s', a') − Q(s, a)), from Q = Vmax = max|r| / (1 − γ) on (B.3).

    Without a `reward_range` Vmax follows the largest reward observed. Plain lists hold Q: single entries are
    read and written far more often than the whole.
    """

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        *,
        discount: float,
        rng: np.random.Generator,
        reward_range: RewardRange | None = None,
        epsilon: float = 0.1,
        learning_rate: float = 0.1,
    ) -> None:
        super().__init__(n_states, n_actions, discount=discount, rng=rng)
        self.reward_range, self.epsilon, self.learning_rate = reward_range, epsilon, learning_rate
        self._largest = largest_reward(self.statistics, reward_range)
        self._start = self._largest / (1 - discount)
        self._paid = reward_range is not None  # whether the scale of rewards is known at all
        self.q = [[self._start] * n_actions for _ in range(n_states)]
        self._untried = {(state, action) for state in range(n_states) for action in range(n_actions)}

    def act(self, state: int) -> int:
        """The first best action, or with probability ε any."""
        if self.rng.random() < self.epsilon:
            return int(self.rng.integers(self.n_actions))
        values = self.q[state]
        return values.index(max(values))

    def observe(self, transition: Transition) -> None:
        """Move Q(s, a) towards what this transition promises."""
        super().observe(transition)
        if self.reward_range is None:
            self._follow_scale()
        self.learn(transition)
        self._untried.discard(transition[:2])

    def learn(self, transition: Transition) -> None:
        """The update of Q."""
        state, action, reward, next_state, terminated, _ = transition
        target = reward if terminated else reward + self.discount * max(self.q[next_state])
        values = self.q[state]
        values[action] += self.learning_rate * (target - values[action])

    def plan(self) -> Floats:
        """(S, A) the greedy policy."""
        return greedy(np.array(self.q))

    def _follow_scale(self) -> None:
        """Keep the start value in the units of the rewards.

        Up to the first reward that is not 0 all of Q is a share of the start value and scales with it; later
        only what was never tried is still at it.
        """
        largest = self.statistics.reward_scale
        if largest != self._largest:
            old, self._start = self._start, largest / (1 - self.discount)
            self._largest = largest
            if self._paid:
                for state, action in self._untried:
                    self.q[state][action] = self._start
            else:
                self.q = [[value * self._start / old for value in values] for values in self.q]
        self._paid = self._paid or self.statistics.reward_min != 0 or self.statistics.reward_max != 0


class UCBH(QLearning):
    """Q-learning with an upper-confidence bonus instead of random actions (Jin et al. 2018, discounted).

    Q(s, a) ← (1 − α_t) Q(s, a) + α_t (r + γ V(s') + b_t) at the t-th visit, with V = min(Vmax, max_a Q),
    α_t = (H + 1) / (H + t), b_t = c max|r| √(H log(S·A·t + 1) / t) and H = 1 / (1 − γ) in the place of the horizon
    (the form of Dong et al. 2019).
    """

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        *,
        discount: float,
        rng: np.random.Generator,
        reward_range: RewardRange | None = None,
        bonus: float = 0.01,
    ) -> None:
        super().__init__(n_states, n_actions, discount=discount, rng=rng, reward_range=reward_range, epsilon=0.0)
        self.bonus = bonus
        self._visits = [[0] * n_actions for _ in range(n_states)]

    def learn(self, transition: Transition) -> None:
        """The update of Q."""
        state, action, reward, next_state, terminated, _ = transition
        self._visits[state][action] += 1
        visit = self._visits[state][action]
        horizon = 1 / (1 - self.discount)
        bonus = self.bonus * self._largest * sqrt(horizon * log(self.n_states * self.n_actions * visit + 1) / visit)
        future = 0.0 if terminated else self.discount * min(self._start, max(self.q[next_state]))
        values = self.q[state]
        values[action] += (horizon + 1) / (horizon + visit) * (reward + future + bonus - values[action])
