"""Values of nodes: the one empirical model under three assumptions about what lies beyond what was seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.evidence import PairTable
from mdpfn.evidence.smoothed.config import SmootherConfig
from mdpfn.model.empirical import Assumptions, EmpiricalModel

EVALUATIONS = 20  # of a policy, before it is improved


@dataclass(frozen=True, eq=False)
class NodeModel:
    """The empirical model over nodes, and how unknown each of its nodes is."""

    model: EmpiricalModel
    unknown: Floats  # (nodes,) ι in [0, 1]
    config: SmootherConfig

    @classmethod
    def of(cls, table: PairTable, unknown: Floats, config: SmootherConfig) -> NodeModel:
        """The model of a table over nodes."""
        return cls(EmpiricalModel.of(table), unknown, config)

    def feared_and_hoped(self, floor: float, initial: Floats | None = None) -> tuple[Floats, Floats]:
        """(nodes,) values if the unknown is worth a little less, a share of the floor, and if it is as it looks."""
        reward, discount = self.model.table.mean_reward, self._discount
        fear = self.config.pessimism * self._mean(self.unknown)
        feared = reward + fear * discount * self._mean(np.ones(len(self.unknown))) * floor
        columns = np.stack([feared, reward], 1), np.stack([discount * (1 - fear), discount], 1)
        value = self._solved(*columns, None if initial is None else np.stack([initial, initial], 1))
        return value[:, 0], value[:, 1]

    def curious(self) -> Floats:
        """(nodes,) values when rewards are ignored and the unknown pays 1."""
        unknown = self._mean(self.unknown)
        return self._solved(unknown[:, None], (self._discount * (1 - unknown))[:, None], None)[:, 0]

    @property
    def _discount(self) -> Floats:
        """(visited,) γ^duration."""
        return self.model.discount(np.array([self.config.discount]))

    def _mean(self, of_nodes: Floats) -> Floats:
        """(visited,) expectation over successors, ends counting nothing."""
        padded = np.zeros(len(self.model.layout.state_mdp))
        padded[: len(of_nodes)] = of_nodes
        return np.asarray(self.model.transition @ padded)

    def _solved(self, reward: Floats, discount: Floats, initial: Floats | None) -> Floats:
        """(nodes, columns) by sweeps over the model."""
        n, n_columns, n_tokens = len(self.unknown), reward.shape[1], len(self.model.layout.state_mdp)
        nothing = np.zeros((1, n_columns))
        assumed = Assumptions(reward, discount, nothing, nothing, np.zeros(n_columns, np.bool_))
        start = np.zeros((n_tokens, n_columns))
        if initial is not None:
            start[:n] = initial
        size = max(float(np.abs(start).max()), float(np.abs(reward).max()), 1e-3)
        tolerance = self.config.tolerance * size
        for column in range(n_columns):
            self._approach(reward[:, column], discount[:, column], start[:, column], tolerance)
        swept = self.model.sweep(assumed, max_sweeps=self.config.sweeps, tolerance=tolerance, initial=start)
        return swept.v[:n]

    def _approach(self, reward: Floats, discount: Floats, value: Floats, tolerance: float) -> None:
        """Bring values (tokens,) near the solution, by modified policy iteration (Puterman and Shin 1978).

        After every backup of all pairs come some of the best pair of every node alone, which cost a tenth.
        """
        transition, state = self.model.transition, self.model.layout.visited_state
        n = self.model.layout.n_active
        first = np.searchsorted(state, np.arange(n))
        for _ in range(self.config.sweeps):
            q = reward + discount * (transition @ value)
            best = np.maximum.reduceat(q, first)
            change = np.abs(best - value[:n]).max()
            value[:n] = best
            if change < tolerance:
                return
            greedy = np.flatnonzero(q == best[state])
            greedy = greedy[np.searchsorted(state[greedy], np.arange(n))]
            follows, pays, counts = transition[greedy], reward[greedy], discount[greedy]
            for _ in range(EVALUATIONS):
                value[:n] = pays + counts * (follows @ value)
