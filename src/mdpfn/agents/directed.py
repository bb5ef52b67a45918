"""Directed exploration: go where something unseen is near, and on the way there to where rewards are."""

from __future__ import annotations

from mdpfn.absorbing import with_absorbing
from mdpfn.agents.base import Transition
from mdpfn.arrays import Floats
from mdpfn.estimates import CURIOUS, OPTIMISTIC, estimate
from mdpfn.layout import Layout
from mdpfn.statistics import Statistics, StatisticsBatch
from mdpfn.told import Told

TIE = 1e-3  # of the reward scale: values closer than this are equally good
STATES_PER_STEP = 25  # the plan of a large problem must serve for more than one step


class DirectedExplorer:
    """Acts greedily for the optimistic planner and, every second episode, for the curious one (`mdpfn.estimates`).

    Optimism alone is content with crumbs: a loop that pays the largest reward seen so far is as good as heaven.
    """

    def __init__(self, statistics: Statistics) -> None:
        self.statistics = statistics
        self.episode = 0
        z = statistics.batch()
        self._visits: dict[int, float] = dict(zip(z.pair.tolist(), z.n_visits.tolist(), strict=True))
        self._seen = set(zip(z.pair[z.transition_row].tolist(), z.successor.tolist(), strict=True))
        self._scale = statistics.reward_scale
        self._steps_since_plan = 0

    def progress(self) -> dict[str, int]:
        """What the statistics do not tell of it."""
        return {"episode": self.episode, "steps_since_plan": self._steps_since_plan}

    def resume(self, episode: int, steps_since_plan: int) -> None:
        """Go on where another explorer of the same statistics was."""
        self.episode, self._steps_since_plan = episode, steps_since_plan

    def policy(self, z: StatisticsBatch, told: Told) -> Floats:
        """(S, A) equal probability on the best actions of each state."""
        self._steps_since_plan = 0
        known = with_absorbing(z)
        estimates = estimate(known, told, Layout.of(known))
        n_states, n_actions = int(z.n_states[0]), int(z.n_actions[0])
        table = estimates.q_table(known, CURIOUS if self.episode % 2 else OPTIMISTIC)
        q = table.reshape(-1, n_actions)[:n_states]
        best = q >= q.max(axis=1, keepdims=True) - TIE
        policy: Floats = best / best.sum(axis=1, keepdims=True)
        return policy

    def is_news(self, transition: Transition) -> bool:
        """Whether this changes what to do: an episode over, a new successor, twice the visits, a larger reward."""
        self._steps_since_plan += 1
        pair = transition.state * self.statistics.n_actions + transition.action
        visits = self._visits[pair] = self._visits.get(pair, 0) + 1
        news = visits.is_integer() and not int(visits) & (int(visits) - 1)
        if (pair, transition.next_state) not in self._seen:
            self._seen.add((pair, transition.next_state))
            news = True
        if self.statistics.reward_scale != self._scale:
            self._scale = self.statistics.reward_scale
            news = True
        if transition.ends_episode:
            self.episode += 1
            return True
        n_states = self.statistics.n_visited / self.statistics.n_actions
        return news and self._steps_since_plan * STATES_PER_STEP >= n_states
