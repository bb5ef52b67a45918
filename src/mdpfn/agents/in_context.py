"""The agent around a planner that maps statistics to a policy: what the network becomes in an environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from mdpfn.agents.base import Agent, Transition
from mdpfn.agents.policies import ActionSampler, greedy, softmax
from mdpfn.arrays import Floats
from mdpfn.statistics import Statistics, StatisticsBatch

Planner: TypeAlias = Callable[[StatisticsBatch], list[Floats]]
"""Statistics of B MDPs -> policy logits u(s, a) of each, as (S, A) arrays."""


class InContext(Agent):
    """Acts by π(a | s) = softmax_a(u(s, a) / τ), planned once per episode; exploits with argmax_a u(s, a) (B)."""

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        *,
        discount: float,
        rng: np.random.Generator,
        planner: Planner,
        acting_temperature: float = 1.0,
        statistics: Statistics | None = None,
    ) -> None:
        super().__init__(n_states, n_actions, discount=discount, rng=rng, statistics=statistics)
        self.planner, self.acting_temperature = planner, acting_temperature
        self._logits: Floats | None = None  # of the current statistics
        self._acting: ActionSampler | None = None  # fixed for an episode

    def act(self, state: int) -> int:
        """An action of this episode's policy."""
        if self._acting is None:
            self._acting = ActionSampler(softmax(self.logits() / self.acting_temperature), self.rng)
        return self._acting(state)

    def observe(self, transition: Transition) -> None:
        """Learn from one transition; the end of an episode ends its policy."""
        super().observe(transition)
        self._logits = None
        if transition.ends_episode:
            self._acting = None

    def plan(self) -> Floats:
        """(S, A) the greedy policy of the current statistics."""
        return greedy(self.logits())

    def logits(self) -> Floats:
        """(S, A) policy logits of the current statistics."""
        if self._logits is None:
            replan_together([self])
        assert self._logits is not None
        return self._logits


def replan_together(agents: Sequence[InContext]) -> None:
    """Compute the logits that these agents need, in one call of each planner among them.

    Plans of many seeds in one batch cost little more than one of them alone.
    """
    stale = [agent for agent in agents if agent._logits is None]
    for planner in dict.fromkeys(agent.planner for agent in stale):
        group = [agent for agent in stale if agent.planner is planner]
        batch = StatisticsBatch.concatenate([agent.statistics.batch() for agent in group])
        for agent, logits in zip(group, planner(batch), strict=True):
            agent._logits = logits
