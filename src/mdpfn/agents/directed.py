"""Directed exploration: go where something unseen is near, and between times to where rewards are."""

from __future__ import annotations

import numpy as np

from mdpfn.absorbing import with_absorbing
from mdpfn.agents.base import Transition
from mdpfn.agents.policies import softmax
from mdpfn.arrays import Floats
from mdpfn.estimates import CURIOUS, N_ESTIMATES, OPTIMISTIC, estimate
from mdpfn.layout import Layout
from mdpfn.statistics import Statistics, StatisticsBatch
from mdpfn.told import Told

TIE = 1e-3  # of the reward scale: values closer than this are equally good
WITHIN_REACH = 0.03  # curiosity ends where it is worth less than this part of heaven …
FAR_AWAY = 0.001  # … or than this, while there is something that was never tried: it may be many steps away
TABLE_TEMPERATURE = 0.3  # of the range of values in a state
STATES_PER_STEP = 25  # the plan of a large problem must serve for more than one step


def planners_values(z: StatisticsBatch, told: Told) -> tuple[Floats, bool]:
    """(S, A, planners) what each planner of `mdpfn.estimates` thinks of every pair of one MDP.

    And whether there is something untried: an action of a state that was left before, or a state that was not.
    """
    known = with_absorbing(z)
    layout = Layout.of(known)
    estimates = estimate(known, told, layout)
    n_states, n_actions = int(z.n_states[0]), int(z.n_actions[0])
    tables = [estimates.q_table(known, planner) for planner in range(N_ESTIMATES)]
    values = np.stack(tables, axis=1).reshape(-1, n_actions, N_ESTIMATES)[:n_states]
    untried = layout.n_blank_actions[: layout.n_active].any() or (layout.successor >= layout.n_active).any()
    return values, bool(untried)


def exploring_table(z: StatisticsBatch, told: Told) -> Floats:
    """(S, A) a policy to gather data by for an episode or more, without a plan in between: curious and random.

    π(a | s) = softmax_a(Q(s, a) / (τ · range of Q in s)): held fixed, the best action alone could hit the same wall
    again and again.
    """
    q = planners_values(z, told)[0][:, :, CURIOUS]
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
        values, untried = planners_values(z, told)
        reach = values[state, :, CURIOUS].max() * (1 - told.discount[0])
        curious = self.episode % 2 and reach > (FAR_AWAY if untried else WITHIN_REACH)
        q = values[:, :, CURIOUS if curious else OPTIMISTIC]
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
