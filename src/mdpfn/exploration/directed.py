"""Directed exploration: go where something unseen is near, and between times to where rewards are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.evidence import PairTable
from mdpfn.exploration.clock import Clock
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.planners.classical import OPTIMISTIC, PURE_EXPLORATION, estimate
from mdpfn.planners.policies import softmax
from mdpfn.planners.problem_info import ProblemInfo


@dataclass(frozen=True)
class DirectedConfig:
    """The constants of directed exploration."""

    tie: float = 1e-3  # of the reward scale: values closer than this are equally good
    within_reach: float = 0.03  # exploration ends where it is worth less than this part of V_max …
    far_away: float = 0.001  # … or than this, while there is something that was never tried: it may be far away
    table_temperature: float = 0.3  # of the range of values in a state
    states_per_step: int = 25  # the plan of a large problem must serve for more than one step


@dataclass(frozen=True)
class DirectedExplorer:
    """Acts greedily for the optimistic planner and, every second episode, for pure exploration (`planners.classical`).

    Optimism alone is content with crumbs: a loop that pays the largest reward seen so far is as good as anything can
    be. Pure exploration leads away from them, as long as anything unseen is within reach.
    """

    config: DirectedConfig = DirectedConfig()

    def policy(self, state: int, table: PairTable, info: ProblemInfo, clock: Clock) -> Floats:
        """(S, A) equal probability on the best actions of each state, as things look from `state`."""
        model = EmpiricalModel.of(table)
        explores = clock.episode % 2 == 1
        q = _q(model, info, PURE_EXPLORATION if explores else OPTIMISTIC)
        if explores:
            reach = q[state].max() * (1 - info.discount[0])
            if reach <= (self.config.far_away if _something_is_untried(model) else self.config.within_reach):
                q = _q(model, info, OPTIMISTIC)
        best = q >= q.max(axis=1, keepdims=True) - self.config.tie
        policy: Floats = best / best.sum(axis=1, keepdims=True)
        return policy

    def plans_again(self, clock: Clock, n_visited: int, n_actions: int) -> bool:
        """Whether to plan in the middle of an episode: anything was new, and the last plan has served its time."""
        served = clock.steps_since_plan * self.config.states_per_step >= n_visited / n_actions
        return clock.replan_trigger and served

    def held_policy(self, table: PairTable, info: ProblemInfo) -> Floats:
        """(S, A) a policy to gather data by for an episode or more, without a plan in between: softened curiosity.

        Held fixed for an episode, the best action alone could hit the same wall again and again.
        """
        q = _q(EmpiricalModel.of(table), info, PURE_EXPLORATION)
        spread = np.ptp(q, axis=1, keepdims=True)
        return softmax(q / (self.config.table_temperature * np.where(spread > 0, spread, 1.0)))


def _q(model: EmpiricalModel, info: ProblemInfo, planner: int) -> Floats:
    """(S, A) what one planner thinks of every pair of the only MDP."""
    return estimate(model, info, (planner,)).q_table(planner).reshape(int(model.n_states[0]), -1)


def _something_is_untried(model: EmpiricalModel) -> bool:
    """Whether there is an action of a state that was left before, or a state that was not."""
    layout = model.layout
    return bool(layout.n_unvisited_actions[: layout.n_active].any() or (layout.successor >= layout.n_active).any())
