"""The agent around a planner that maps statistics to a policy: what the network becomes in an environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np

from mdpfn.agents.base import Agent, Transition
from mdpfn.agents.directed import DirectedExplorer
from mdpfn.agents.policies import ActionSampler, exploiting, softmax
from mdpfn.agents.reward_range import RewardRange, largest_reward
from mdpfn.arrays import Floats
from mdpfn.outlook import Outlook
from mdpfn.statistics import Statistics, StatisticsBatch
from mdpfn.told import Told

Planner: TypeAlias = Callable[[StatisticsBatch, Told], list[Outlook]]
"""Statistics of B MDPs, and what is known of them beforehand -> the outlook of each."""

Exploration: TypeAlias = Literal["softmax", "directed"]


class InContext(Agent):
    """Exploits with argmax_a u(s, a), and by a mixture where nothing is known (`Outlook.unknown`).

    There are two ways to explore:

    - `softmax`, the paper's: it acts by π(a | s) = softmax_a(u(s, a) / τ), planned once per episode (B);
    - `directed`: it goes where something unseen is near (`DirectedExplorer`), and plans whenever there is news.

    With `replan_every` it also plans when that many steps have passed since the last plan. States may be added to
    its statistics at any time: without a plan for them, any action is as good as another.
    """

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        *,
        discount: float,
        rng: np.random.Generator,
        planner: Planner,
        acting_temperature: float = 1.0,
        replan_every: int | None = None,
        exploration: Exploration = "softmax",
        reward_range: RewardRange | None = None,
        statistics: Statistics | None = None,
    ) -> None:
        super().__init__(n_states, n_actions, discount=discount, rng=rng, statistics=statistics)
        self.planner, self.acting_temperature = planner, acting_temperature
        self.explorer = DirectedExplorer(self.statistics) if exploration == "directed" else None
        self.replan_every, self.reward_range = replan_every, reward_range
        self.acting_policy: Floats | None = None  # (S, A) what it acts by until it plans again
        self.steps_since_plan = 0
        self._sampler: ActionSampler | None = None  # of the acting policy
        self._outlook: Outlook | None = None  # of the current statistics

    def act(self, state: int) -> int:
        """An action of this episode's policy."""
        if self.acting_policy is None:
            self.acting_policy, self.steps_since_plan = self._choose_policy(state), 0
            self._sampler = None
        if self._sampler is None:
            self._sampler = ActionSampler(self.acting_policy, self.rng)
        if state >= len(self.acting_policy):
            return int(self.rng.integers(self.n_actions))
        return self._sampler(state)

    def _choose_policy(self, state: int) -> Floats:
        """(S, A) what to act by from now on, in `state`."""
        if self.explorer is not None:
            return self.explorer.policy(state, self.context(), self.told())
        return softmax(self.outlook().policy_logits / self.acting_temperature)

    def observe(self, transition: Transition) -> None:
        """Learn from one transition; the end of an episode ends its policy, as news do where it explores by them."""
        super().observe(transition)
        self._outlook = None
        self.steps_since_plan += 1
        news = transition.ends_episode if self.explorer is None else self.explorer.is_news(transition)
        if news or self.steps_since_plan == self.replan_every:
            self.acting_policy = None

    def plan(self) -> Floats:
        """(S, A) what to exploit by: the best action of each state, and a mixture where the outlook asks for one."""
        return exploiting(self.outlook())

    def context(self) -> StatisticsBatch:
        """What the planner is told: the statistics, on the scale of the rewards."""
        z = self.statistics.batch()
        if self.reward_range is None:
            return z
        return replace(z, reward_scale=np.array([largest_reward(self.statistics, self.reward_range)]))

    def told(self) -> Told:
        """What it knows beforehand."""
        return Told.of(self.discount, self.reward_range)

    def outlook(self) -> Outlook:
        """What the planner makes of the current statistics."""
        if self._outlook is None:
            replan_together([self])
        assert self._outlook is not None
        return self._outlook


def replan_together(agents: Sequence[InContext]) -> None:
    """Compute the outlooks that these agents need, in one call of each planner among them.

    Plans of many seeds in one batch cost little more than one of them alone.
    """
    stale = [agent for agent in agents if agent._outlook is None]
    for planner in dict.fromkeys(agent.planner for agent in stale):
        group = [agent for agent in stale if agent.planner is planner]
        batch = StatisticsBatch.concatenate([agent.context() for agent in group])
        told = Told.concatenate([agent.told() for agent in group])
        for agent, outlook in zip(group, planner(batch, told), strict=True):
            agent._outlook = outlook
