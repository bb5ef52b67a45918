"""What classical planners make of the same data: four exact solutions of the empirical model.

They differ in what they make of ignorance.

- *certainty equivalent* takes the data at its word, Q = r̂ + γ P̂ V. It never takes an action that was not tried in a
  state it knows; a state it does not know is worth what states are worth on average.
- *optimistic* believes that everything unseen is worth V_max. There lead pairs that were never visited, and as if
  every other had been seen to lead there w times beside its N visits: Q = (N (r̂ + γ P̂ V) + w · V_max) / (N + w).
- *pessimistic* believes that every pair pays c / √N less than it was seen to, as VI-LCB does (Rashidinejad et al.
  2021), and one that was never visited for ever as little as it may.
- *pure exploration* is optimistic and earns nothing on the way: its values say how near the unseen is.

Rewards are divided by their scale. Nothing follows a terminal state, whose value is 0 for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpfn.arrays import Floats, PlannerPairFloats, PlannerTokenFloats, offsets_of
from mdpfn.model.empirical import Assumptions, EmpiricalModel
from mdpfn.model.policy_iteration import solve
from mdpfn.planners.problem_info import ProblemInfo

N_PLANNERS = 4
ALL_PLANNERS = CERTAINTY_EQUIVALENT, OPTIMISTIC, PESSIMISTIC, PURE_EXPLORATION = tuple(range(N_PLANNERS))

_EARNS = np.arange(N_PLANNERS) != PURE_EXPLORATION  # whether rewards count for a planner, …
_BELIEVES = np.arange(N_PLANNERS) != CERTAINTY_EQUIVALENT  # … whether it believes something of what was never tried, …
_HOPES = np.isin(np.arange(N_PLANNERS), (OPTIMISTIC, PURE_EXPLORATION))  # … and whether of tried actions as well


@dataclass(frozen=True)
class PlannerConfig:
    """The constants of the planners; a network is trained to read the answers of one setting."""

    unseen_visits: float = 0.03  # w
    penalty: float = 0.3  # c: among those tried, of those from 0 to 1 it has most to tell beside certainty equivalence


@dataclass(frozen=True, eq=False)
class Estimates:
    """Q and V of each of some planners, on tokens."""

    model: EmpiricalModel
    planners: tuple[int, ...]
    q: PlannerPairFloats
    value: PlannerTokenFloats

    @property
    def unvisited_q(self) -> Floats:
        """(B, planners) of a pair never visited, wherever it is."""
        return self.value[self.model.layout.n_active :]

    def q_table(self, planner: int) -> Floats:
        """(pairs,) Q of one planner for every pair of every MDP, MDP after MDP."""
        column = self.planners.index(planner)
        return self.model.q_table(self.q[:, column], self.unvisited_q[:, column])

    def certainty_equivalent_table(self) -> Floats:
        """(pairs,) Q of the certainty-equivalent planner as it exploits: −∞ for untried actions of known states."""
        q = self.q_table(CERTAINTY_EQUIVALENT)
        z = self.model.table
        tried = self.model.q_table(np.ones(len(z.pair)), np.zeros(len(z))) > 0
        n_actions = np.repeat(z.n_actions, self.model.n_states)
        knows_some = np.logical_or.reduceat(tried, offsets_of(n_actions)[:-1])
        return np.where(tried | ~np.repeat(knows_some, n_actions), q, -np.inf)


def estimate(
    model: EmpiricalModel,
    info: ProblemInfo,
    planners: tuple[int, ...] = ALL_PLANNERS,
    config: PlannerConfig = PlannerConfig(),  # noqa: B008
) -> Estimates:
    """What these planners make of every MDP of a batch."""
    assumed = assumptions(model, info, config)
    if planners != ALL_PLANNERS:
        chosen = list(planners)
        assumed = Assumptions(*(getattr(assumed, f)[..., chosen] for f in Assumptions.__dataclass_fields__))
    values = solve(model, assumed)
    return Estimates(model, planners, values.q, values.v)


def assumptions(model: EmpiricalModel, info: ProblemInfo, config: PlannerConfig) -> Assumptions:
    """What the four planners assume of the same model."""
    z = model.table
    v_max = _extremes(z.reward_scale, info, config)
    unseen = (config.unseen_visits / (z.n_visits + config.unseen_visits))[:, None] * _HOPES
    seen, earned = 1 - unseen, z.normalized_reward[:, None] * _EARNS
    earned[:, PESSIMISTIC] -= config.penalty / np.sqrt(z.n_visits)
    return Assumptions(
        reward=(seen * earned + unseen * v_max[z.pair_mdp]) * model.goes_on[:, None],
        discount=seen * model.discount(info.discount)[:, None],
        unvisited_reward=v_max,
        unvisited_discount=np.ones((len(z), 1)) * ~_BELIEVES,
        may_try=_BELIEVES,
    )


def _extremes(reward_scale: Floats, info: ProblemInfo, config: PlannerConfig) -> Floats:
    """(B, 4) how much a pair can be worth at most and at least: the extreme reward for ever.

    Where even the best reward is a loss, the best is to pay it once and be done; and the other way round. The worst
    also bears the penalty of a single visit: no pair that was visited looks worse.
    """
    horizon = info.horizon
    high = np.where(np.isfinite(info.reward_high), info.reward_high / reward_scale, 1.0)
    low = np.where(np.isfinite(info.reward_low), info.reward_low / reward_scale, -1.0)
    best, worst = high * np.where(high > 0, horizon, 1), low * np.where(low < 0, horizon, 1)
    return np.array([np.zeros(len(horizon)), best, worst - config.penalty * horizon, horizon]).T
