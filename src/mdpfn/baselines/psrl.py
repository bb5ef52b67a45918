"""Posterior sampling (Strens 2000; Osband et al. 2013): each episode, solve one MDP that may be the true one."""

import numpy as np
from scipy.sparse import csr_array

from mdpfn.arrays import Floats, Ints, sums_by
from mdpfn.baselines.model_based import ACTING_SWEEPS, ModelBasedLearner
from mdpfn.evidence import PairTable
from mdpfn.model.solvers import value_iteration
from mdpfn.planners.policies import best_actions

UNSEEN_SUCCESSORS = 8  # sticks that the prior's mass is broken into
PRIOR_VISITS = 0.1  # what the prior on rewards weighs, in visits


class PSRL(ModelBasedLearner):
    """Follows, for an episode each, the best policies of MDPs drawn from the posterior.

    Prior: successors of a pair ~ Dirichlet(1/S, …, 1/S), rewards of a pair ~ normal-gamma over the reward range.
    """

    def choose_actions(self) -> Ints:
        """(S,) the greedy actions of one sampled MDP."""
        z = self.evidence.table()
        n_states, n_actions = self.evidence.n_states, self.evidence.n_actions
        going_on = np.repeat(~z.terminal_mask(), n_actions)  # nothing is earned in terminal states
        q = value_iteration(
            self._sample_transition(z),
            self._sample_reward(z) * going_on,
            np.where(going_on, self.discount, 0.0),
            np.arange(n_states) * n_actions,
            max_sweeps=ACTING_SWEEPS,
            initial_value=self._values.get("sampled"),
        ).reshape(n_states, n_actions)
        self._values["sampled"] = q.max(axis=1)
        return best_actions(q)

    def _sample_transition(self, z: PairTable) -> csr_array:
        """(S·A, S) one draw from the Dirichlet posterior of every row, without drawing all S entries.

        Dirichlet(1/S, …, 1/S) is a Dirichlet process of weight 1 over a uniform base: observed successors get
        weights Gamma(N), and a weight Gamma(1) is broken into sticks over uniformly drawn states.
        """
        n_states = self.evidence.n_states
        n_pairs = n_states * self.evidence.n_actions
        broken = self.rng.random((n_pairs, UNSEEN_SUCCESSORS))
        broken[:, -1] = 1.0
        left = np.cumprod(1 - broken, axis=1)
        sticks = broken * np.column_stack([np.ones(n_pairs), left[:, :-1]])
        unseen_weight = self.rng.standard_exponential(n_pairs)[:, None] * sticks
        unseen_state = self.rng.integers(n_states, size=unseen_weight.shape)
        weight = np.concatenate([self.rng.standard_gamma(z.transition_count), unseen_weight.reshape(-1)])
        row = np.concatenate([z.pair[z.transition_row], np.repeat(np.arange(n_pairs), UNSEEN_SUCCESSORS)])
        column = np.concatenate([z.successor, unseen_state.reshape(-1)])
        total = sums_by(row, weight, n_pairs)
        going_on = np.concatenate([z.going_on, np.ones(unseen_weight.size)])
        return csr_array((going_on * weight / total[row], (row, column)), shape=(n_pairs, n_states))

    def _sample_reward(self, z: PairTable) -> Floats:
        """(S·A,) one draw of the mean reward of every pair, λ ~ Gamma(α, β), μ ~ N(m, 1 / (κ λ)).

        The prior is centred in the reward range and as wide as it.
        """
        low, high = float(self.info.reward_low[0]), float(self.info.reward_high[0])
        if not np.isfinite(low):
            low, high = self.evidence.reward_min, self.evidence.reward_max
        if not low < high:
            low, high = -self.evidence.reward_scale, self.evidence.reward_scale
        centre, spread = (low + high) / 2, ((high - low) / 2) ** 2
        n, total, squares = np.zeros((3, self.evidence.n_states * self.evidence.n_actions))
        n[z.pair], total[z.pair], squares[z.pair] = z.n_visits, z.reward_sum, z.reward_square_sum
        mean, weight = total / np.where(n > 0, n, 1), PRIOR_VISITS + n
        deviation = np.maximum(squares - n * mean**2, 0) + PRIOR_VISITS * n / weight * (mean - centre) ** 2
        precision = self.rng.gamma(1 + n / 2) / (PRIOR_VISITS * spread + deviation / 2)
        posterior_mean = (PRIOR_VISITS * centre + total) / weight
        return posterior_mean + self.rng.standard_normal(len(n)) / np.sqrt(weight * precision)
