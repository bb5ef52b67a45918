"""Steps through an MDP, one transition at a time, fast enough to be called millions of times."""

from bisect import bisect_right

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.model.mdp import TabularMDP


class Simulator:
    """Samples transitions of an MDP from precomputed cumulative rows, kept as lists.

    A step takes one uniform number from `rng`, whatever it decides, and one normal number where rewards are noisy.
    Stepping on from a terminal state stays there for nothing, so that a protocol may end episodes or run them on.
    """

    def __init__(self, mdp: TabularMDP, rng: np.random.Generator) -> None:
        self.rng = rng
        self.state = 0
        bounds = mdp.transition.indptr[1:-1]
        self._n_actions = mdp.n_actions
        self._successors = [row.tolist() for row in np.split(mdp.transition.indices, bounds)]
        self._cumulative = [cumulative(row) for row in np.split(mdp.transition.data, bounds)]
        self._rewards = [row.tolist() for row in np.split(mdp.outcome_reward, bounds)]
        self._reward_std = mdp.reward_std.reshape(-1).tolist()
        self._terminal = mdp.terminal.tolist()
        self._start = np.flatnonzero(mdp.start).tolist()
        self._start_cumulative = cumulative(mdp.start[self._start])

    def reset(self) -> int:
        """The first state of a new episode."""
        start = 0 if len(self._start) == 1 else bisect_right(self._start_cumulative, self.rng.random())
        self.state = self._start[start]
        return self.state

    def step(self, action: int) -> tuple[float, int, bool]:
        """Reward, next state, and whether that state is terminal."""
        pair = self.state * self._n_actions + action
        outcome = bisect_right(self._cumulative[pair], self.rng.random())
        reward = self._rewards[pair][outcome]
        if self._reward_std[pair] > 0:
            reward += self._reward_std[pair] * self.rng.standard_normal()
        self.state = self._successors[pair][outcome]
        return reward, self.state, self._terminal[self.state]


def cumulative(probabilities: Floats) -> list[float]:
    """(n,) P(outcome ≤ i), ending at exactly 1."""
    sums = probabilities.cumsum()
    normalized: list[float] = (sums / sums[-1]).tolist()
    return normalized
