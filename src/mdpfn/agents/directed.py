"""Directed exploration: go where something unseen is near, and between times to where rewards are."""

from __future__ import annotations

import numpy as np

from mdpfn.absorbing import with_absorbing
from mdpfn.agents.base import Transition
from mdpfn.agents.policies import softmax
from mdpfn.arrays import Floats
from mdpfn.estimates import CURIOUS, OPTIMISTIC, estimate
from mdpfn.layout import Layout
from mdpfn.statistics import Statistics, StatisticsBatch
from mdpfn.told import Told

TIE = 1e-3  # of the reward scale: values closer than this are equally good
WITHIN_REACH = 0.03  # curiosity ends where it is worth less than this part of heaven …
FAR_AWAY = 0.001  # … or than this, while there is something that was never tried: it may be many steps away
TABLE_TEMPERATURE = 0.3  # of the range of values in a state
STATES_PER_STEP = 25  # the plan of a large problem must serve for more than one step


class Planners:
    """What planners of `mdpfn.estimates` think of one MDP, each asked only when it is needed."""

    def __init__(self, z: StatisticsBatch, told: Told) -> None:
        self._known, self._told = with_absorbing(z), told
        self._layout = Layout.of(self._known)
        self._shape = int(z.n_states[0]), int(z.n_actions[0])

    def q(self, planner: int) -> Floats:
        """(S, A) what this planner thinks of every pair."""
        n_states, n_actions = self._shape
        found = estimate(self._known, self._told, self._layout, (planner,))
        return found.q_table(self._known, planner).reshape(-1, n_actions)[:n_states]

    @property
    def something_is_untried(self) -> bool:
        """Whether there is an action of a state that was left before, or a state that was not."""
        layout = self._layout
        untried = layout.n_blank_actions[: layout.n_active].any() or (layout.successor >= layout.n_active).any()
        return bool(untried)


def exploring_table(z: StatisticsBatch, told: Told) -> Floats:
    """(S, A) a policy to gather data by for an episode or more, without a plan in between: curious and random."""
    return softened(Planners(z, told).q(CURIOUS))


def softened(q: Floats) -> Floats:
    """(S, A) π(a | s) = softmax_a(Q(s, a) / (τ · range of Q in s)).

    Held fixed for an episode, the best action alone could hit the same wall again and again.
    """
    spread = np.ptp(q, axis=1, keepdims=True)
    return softmax(q / (TABLE_TEMPERATURE * np.where(spread > 0, spread, 1.0)))


class DirectedExplorer:
    """Acts greedily for the optimistic planner and, every second episode, for the curious one (`mdpfn.estimates`).

    Optimism alone is content with crumbs: a loop that pays the largest reward seen so far is as good as heaven. The
    curious planner leads away from them, as long as anything unseen is within reach.
    """

    def __init__(self, statistics: Statistics) -> None:
        self.statistics = statistics
        self.episode = 0
        z = statistics.batch()
        self._visits: dict[int, int] = dict(zip(z.pair.tolist(), z.n_visits.astype(np.int64).tolist(), strict=True))
        self._seen = set(zip(z.pair[z.transition_row].tolist(), z.successor.tolist(), strict=True))
        self._scale = statistics.reward_scale
        self._steps_since_plan = 0
        self._news = False  # since the last plan

    def progress(self) -> dict[str, int]:
        """What the statistics do not tell of it."""
        return {"episode": self.episode, "steps_since_plan": self._steps_since_plan, "news": int(self._news)}

    def resume(self, episode: int, steps_since_plan: int, news: int) -> None:
        """Go on where another explorer of the same statistics was."""
        self.episode, self._steps_since_plan, self._news = episode, steps_since_plan, bool(news)

    def policy(self, state: int, z: StatisticsBatch, told: Told) -> Floats:
        """(S, A) equal probability on the best actions of each state, as things look from `state`."""
        self._steps_since_plan, self._news = 0, False
        planners = Planners(z, told)
        q = planners.q(CURIOUS if self.episode % 2 else OPTIMISTIC)
        if self.episode % 2:
            reach = q[state].max() * (1 - told.discount[0])
            if reach <= (FAR_AWAY if planners.something_is_untried else WITHIN_REACH):
                q = planners.q(OPTIMISTIC)
        best = q >= q.max(axis=1, keepdims=True) - TIE
        policy: Floats = best / best.sum(axis=1, keepdims=True)
        return policy

    def is_news(self, transition: Transition) -> bool:
        """Whether to plan again: after an episode, a new successor, twice the visits, a larger reward."""
        self._steps_since_plan += 1
        pair = transition.state * self.statistics.n_actions + transition.action
        visits = self._visits[pair] = self._visits.get(pair, 0) + 1
        if not visits & (visits - 1):
            self._news = True
        if (pair, transition.next_state) not in self._seen:
            self._seen.add((pair, transition.next_state))
            self._news = True
        if self.statistics.reward_scale != self._scale:
            self._scale = self.statistics.reward_scale
            self._news = True
        if transition.ends_episode:
            self.episode += 1
            return True
        n_states = self.statistics.n_visited / self.statistics.n_actions
        return self._news and self._steps_since_plan * STATES_PER_STEP >= n_states
