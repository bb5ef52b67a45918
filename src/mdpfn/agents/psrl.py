"""Posterior sampling (Strens 2000; Osband et al. 2013): each episode, solve one MDP that may be the true one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from mdpfn.agents.base import Transition
from mdpfn.agents.estimated_model import ACTING_SWEEPS, EstimatedModel
from mdpfn.agents.model_based import ModelBasedAgent
from mdpfn.agents.policies import best_actions
from mdpfn.agents.reward_range import RewardRange
from mdpfn.arrays import Floats, Ints

UNSEEN_SUCCESSORS = 8  # sticks that the prior's mass is broken into
PRIOR_VISITS = 0.1  # what the prior on rewards weighs, in visits


class PSRL(ModelBasedAgent):
    """Prior: successors of a pair ~ Dirichlet(1/S, …, 1/S), rewards of a pair ~ normal-gamma over the reward range."""

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        *,
        discount: float,
        rng: np.random.Generator,
        reward_range: RewardRange | None = None,
    ) -> None:
        super().__init__(n_states, n_actions, discount=discount, rng=rng)
        self.reward_range = reward_range
        self._square_sum = np.zeros(n_states * n_actions)  # Σ r² of each pair
        self._sampled_value = np.zeros(n_states)

    def observe(self, transition: Transition) -> None:
        """Learn from one transition."""
        super().observe(transition)
        self._square_sum[transition.state * self.n_actions + transition.action] += transition.reward**2

    def choose_actions(self) -> Ints:
        """(S,) the greedy actions of one sampled MDP."""
        model = EstimatedModel.most_likely(self.statistics)
        sample = replace(model, transition=self._sample_transition(), reward=self._sample_reward(model))
        q = sample.solve(self.discount, max_sweeps=ACTING_SWEEPS, initial_value=self._sampled_value)
        self._sampled_value = q.max(axis=1)
        return best_actions(q)

    def _sample_transition(self) -> csr_array:
        """(S·A, S) one draw from the Dirichlet posterior of every row, without drawing all S entries.

        Dirichlet(1/S, …, 1/S) is a Dirichlet process of weight 1 over a uniform base: observed successors get
        weights Gamma(N), and a weight Gamma(1) is broken into sticks over uniformly drawn states.
        """
        z = self.statistics.batch()
        n_pairs = self.n_states * self.n_actions
        broken = self.rng.random((n_pairs, UNSEEN_SUCCESSORS))
        broken[:, -1] = 1.0
        left = np.cumprod(1 - broken, axis=1)
        sticks = broken * np.column_stack([np.ones(n_pairs), left[:, :-1]])
        unseen_weight = self.rng.standard_exponential(n_pairs)[:, None] * sticks
        unseen_state = self.rng.integers(self.n_states, size=unseen_weight.shape)
        weight = np.concatenate([self.rng.standard_gamma(z.transition_count), unseen_weight.reshape(-1)])
        row = np.concatenate([z.pair[z.transition_row], np.repeat(np.arange(n_pairs), UNSEEN_SUCCESSORS)])
        column = np.concatenate([z.successor, unseen_state.reshape(-1)])
        total = np.bincount(row, weights=weight, minlength=n_pairs)
        going_on = np.concatenate([z.going_on, np.ones(unseen_weight.size)])
        return csr_array((going_on * weight / total[row], (row, column)), shape=(n_pairs, self.n_states))

    def _sample_reward(self, model: EstimatedModel) -> Floats:
        """(S·A,) one draw of the mean reward of every pair, λ ~ Gamma(α, β), μ ~ N(m, 1 / (κ λ)).

        The prior is centred in the reward range and as wide as it.
        """
        low, high = self.reward_range or (self.statistics.reward_min, self.statistics.reward_max)
        if not low < high:
            low, high = -self.statistics.reward_scale, self.statistics.reward_scale
        centre, spread = (low + high) / 2, ((high - low) / 2) ** 2
        n, mean = model.n_visits, model.reward
        weight = PRIOR_VISITS + n
        deviation = np.maximum(self._square_sum - n * mean**2, 0) + PRIOR_VISITS * n / weight * (mean - centre) ** 2
        precision = self.rng.gamma(1 + n / 2) / (PRIOR_VISITS * spread + deviation / 2)
        posterior_mean = (PRIOR_VISITS * centre + n * mean) / weight
        return posterior_mean + self.rng.standard_normal(len(n)) / np.sqrt(weight * precision)
