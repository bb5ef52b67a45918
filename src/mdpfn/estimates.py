"""What classical planners make of statistics: four exact solutions of the empirical model.

All plan on P̂ and r̂. They differ in what they make of ignorance.

- *certain* takes the data at its word, Q = r̂ + γ P̂ V. It never takes an action that was not tried in a state it
  knows; a state it does not know is worth what states are worth on average.
- *optimistic* believes in heaven, worth as much as anything can be. There lead pairs that were never visited, and as
  if every other had been seen to lead there w times beside its N visits: Q = (N (r̂ + γ P̂ V) + w · heaven) / (N + w).
- *pessimistic* believes that every pair pays c / √N less than it was seen to, as VI-LCB does (Rashidinejad et al.
  2021), and one that was never visited for ever as little as it may.
- *curious* is optimistic and earns nothing on the way: its values say how near the unseen is.

Rewards are divided by their scale. Nothing follows a terminal state, whose value is 0 for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from mdpfn.arrays import Bools, Floats, Ints, offsets_of, sums_by
from mdpfn.layout import Layout
from mdpfn.statistics import StatisticsBatch
from mdpfn.told import Told

N_ESTIMATES = 4
ALL_PLANNERS = CERTAIN, OPTIMISTIC, PESSIMISTIC, CURIOUS = tuple(range(N_ESTIMATES))
UNSEEN_VISITS = 0.03  # w
PENALTY = 0.3  # c: among those tried, of the penalties from 0 to 1 it has most to tell beside the certain plan
DENSE_ENTRIES = 500_000  # of dense models solved at once, states · actions · states: beyond, sweeps are faster
CHUNK = 16  # MDPs solved together at most, of similar sizes
FIRST_SWEEPS = 8
PATIENCE = 8  # improvements of a policy after which what matters is far away: a handful is the rule
MAX_IMPROVEMENTS = 100
IMPROVEMENT = 1e-9  # relative; less is rounding
SWEEPS = 400  # and one per state, so that values reach every one, where a model is too large to be solved exactly
SWEEP_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class Estimates:
    """Q and V of each of some planners, on tokens."""

    planners: tuple[int, ...]
    q: Floats  # (visited, planners)
    blank_q: Floats  # (B, planners) of a pair never visited, wherever it is
    value: Floats  # (states, planners)

    def q_table(self, z: StatisticsBatch, planner: int) -> Floats:
        """(pairs,) Q of one planner for every pair of every MDP, MDP after MDP."""
        column = self.planners.index(planner)
        n_pairs = z.n_states * z.n_actions
        table = np.repeat(self.blank_q[:, column], n_pairs)
        table[offsets_of(n_pairs)[z.pair_mdp] + z.pair] = self.q[:, column]
        return table

    def certain_table(self, z: StatisticsBatch) -> Floats:
        """(pairs,) Q of the certain planner as it exploits: −∞ for untried actions of states where one was tried."""
        q = self.q_table(z, CERTAIN)
        tried = np.zeros(len(q), dtype=bool)
        tried[offsets_of(z.n_states * z.n_actions)[z.pair_mdp] + z.pair] = True
        n_actions = np.repeat(z.n_actions, z.n_states)
        knows_some = np.logical_or.reduceat(tried, offsets_of(n_actions)[:-1])
        return np.where(tried | ~np.repeat(knows_some, n_actions), q, -np.inf)


def estimate(z: StatisticsBatch, told: Told, layout: Layout, planners: tuple[int, ...] = ALL_PLANNERS) -> Estimates:
    """What these planners make of every MDP of a batch, whose terminal states must look absorbing."""
    model = _Model.of(z, told, layout, planners)
    value = np.zeros((len(layout.state_mdp), len(planners)))
    q = np.zeros((len(z.pair), len(planners)))
    n_active = np.bincount(layout.active_mdp, minlength=len(z))
    entries = (n_active + 1) ** 2 * (z.n_actions + 1)
    large = entries > DENSE_ENTRIES  # whatever else is in the batch
    small = np.argsort(n_active, kind="stable")
    small = small[~large[small]]
    while len(small):
        next_ones = small[:CHUNK]
        padded = (n_active[next_ones].max() + 1) ** 2 * (z.n_actions[next_ones].max() + 1)
        n = max(1, min(CHUNK, DENSE_ENTRIES // padded))
        _policy_iteration(z, layout, model, small[:n], value, q)
        small = small[n:]
    if large.any():
        _value_iteration(z, layout, model, large, value, q)
    return Estimates(planners, q, value[layout.n_active :], value)


@dataclass(frozen=True, eq=False)
class _Model:
    """The empirical model of a batch on tokens, as each planner sees it."""

    reward: Floats  # (visited, planners) what a pair pays, the unseen included
    discount: Floats  # (visited, planners) γ N / (N + w), 0 where a terminal state ends it all
    extreme: Floats  # (B, planners) what the unseen is worth …
    believed: Bools  # (planners,) … to all planners but the certain one

    @classmethod
    def of(cls, z: StatisticsBatch, told: Told, layout: Layout, planners: tuple[int, ...]) -> _Model:
        chosen = list(planners)
        extreme = _extremes(z, told)
        unseen = np.zeros((len(z.pair), N_ESTIMATES))
        unseen[:, [OPTIMISTIC, CURIOUS]] = (UNSEEN_VISITS / (z.n_visits + UNSEEN_VISITS))[:, None]
        earned = np.repeat(z.normalized_reward[:, None], N_ESTIMATES, axis=1)
        earned[:, PESSIMISTIC] -= PENALTY / np.sqrt(z.n_visits)
        earned[:, CURIOUS] = 0.0
        goes_on = ~layout.is_terminal(z)[layout.visited_state][:, None]
        return cls(
            reward=(((1 - unseen) * earned + unseen * extreme[z.pair_mdp]) * goes_on)[:, chosen],
            discount=((1 - unseen) * told.discount[z.pair_mdp, None] * goes_on)[:, chosen],
            extreme=extreme[:, chosen],
            believed=np.array(planners) != CERTAIN,
        )


def _extremes(z: StatisticsBatch, told: Told) -> Floats:
    """(B, 4) how much a pair can be worth at most and at least: the extreme reward for ever.

    Where even the best reward is a loss, the best is to pay it once and be done; and the other way round. The worst
    also bears the penalty of a single visit: no pair that was visited looks worse.
    """
    horizon = 1 / (1 - told.discount)
    high = np.where(np.isfinite(told.reward_high), told.reward_high / z.reward_scale, 1.0)
    low = np.where(np.isfinite(told.reward_low), told.reward_low / z.reward_scale, -1.0)
    best, worst = high * np.where(high > 0, horizon, 1), low * np.where(low < 0, horizon, 1)
    return np.stack([np.zeros(len(z)), best, worst - PENALTY * horizon, horizon], axis=1)


def _policy_iteration(
    z: StatisticsBatch, layout: Layout, model: _Model, mdps: Ints, value: Floats, q_visited: Floats
) -> None:
    """Write V and Q of these MDPs, exact: solve V = r_π + γ P_π V for the greedy π until π stays."""
    table = _Table.of(z, layout, model, mdps)
    n_mdps, n_planners, n, _ = table.reward.shape
    mdp, planner, state = np.arange(n_mdps)[:, None, None], np.arange(n_planners)[:, None], np.arange(n)
    q = table.reward
    for _ in range(FIRST_SWEEPS):  # so that the first policy is a good one
        q = table.backup(q.max(axis=3))
    policy = q.argmax(axis=3)
    for number in range(MAX_IMPROVEMENTS):
        if number == PATIENCE:  # an improvement carries values by one state, as a sweep does, which is cheaper
            for _ in range(n):
                q = table.backup(q.max(axis=3))
            policy = q.argmax(axis=3)
        chosen = table.transition[mdp, state, policy]  # (MDP, planner, state, state)
        chosen *= table.discount[mdp, planner, state, policy][..., None]
        v = np.linalg.solve(np.eye(n) - chosen, table.reward[mdp, planner, state, policy][..., None])[..., 0]
        q = table.backup(v)
        held = q[mdp, planner, state, policy]
        better = q.max(axis=3) > held + IMPROVEMENT * (1 + np.abs(held))
        if not better.any():
            break
        policy = np.where(better, q.argmax(axis=3), policy)
    value[table.token] = v[table.token_mdp, :, table.token_place]
    q_visited[table.pair] = q[table.pair_place]


@dataclass(frozen=True, eq=False)
class _Table:
    """Models of some MDPs, dense and padded: (MDP, state, choice, state).

    The choices of a state are its actions and, last, what stands for all those never taken: to be worth what the
    blank state is worth. The blank state comes after the active ones; places behind it are worth 0.
    """

    transition: Floats  # (MDP, state, choice, state) P̂
    discount: Floats  # (MDP, planner, state, choice)
    reward: Floats  # (MDP, planner, state, choice), −∞ where there is no such choice
    token: Ints  # (n,) state tokens of these MDPs …
    token_mdp: Ints  # (n,) … their MDP …
    token_place: Ints  # (n,) … and their place in it
    pair: Ints  # (m,) visited pairs of these MDPs …
    pair_place: tuple[Ints, slice, Ints, Ints]  # … and where `reward` has them

    def backup(self, value: Floats) -> Floats:
        """(MDP, planner, state, choice) Q of V (MDP, planner, state)."""
        n_mdps, n, n_choices, _ = self.transition.shape
        flat = self.transition.reshape(n_mdps, n * n_choices, n)
        future = np.matmul(flat, value.transpose(0, 2, 1)).reshape(n_mdps, n, n_choices, -1)
        q: Floats = self.reward + self.discount * future.transpose(0, 3, 1, 2)
        return q

    @classmethod
    def of(cls, z: StatisticsBatch, layout: Layout, model: _Model, mdps: Ints) -> _Table:
        n_active = np.bincount(layout.active_mdp, minlength=len(z))
        place = np.append(np.arange(layout.n_active) - offsets_of(n_active)[layout.active_mdp], n_active)
        blank = n_active[mdps]
        member = np.full(len(z), -1)
        member[mdps] = np.arange(len(mdps))
        n, n_choices = int(blank.max()) + 1, int(z.n_actions[mdps].max()) + 1
        transition = np.zeros((len(mdps), n, n_choices, n))
        n_planners = len(model.believed)
        believing, certain = np.flatnonzero(model.believed), np.flatnonzero(~model.believed)
        discount = np.zeros((len(mdps), n_planners, n, n_choices))
        reward = np.full((len(mdps), n_planners, n, n_choices), -np.inf)

        pairs = np.flatnonzero(member[z.pair_mdp] >= 0)
        action = z.pair % z.n_actions[z.pair_mdp]
        where_pair = member[z.pair_mdp[pairs]], slice(None), place[layout.visited_state[pairs]], action[pairs]
        reward[where_pair], discount[where_pair] = model.reward[pairs], model.discount[pairs]
        edges = np.flatnonzero((member[z.pair_mdp] >= 0)[z.transition_row])
        row = z.transition_row[edges]
        m, s, t = member[z.pair_mdp[row]], place[layout.visited_state[row]], place[layout.successor[edges]]
        transition[m, s, action[row], t] = z.successor_probs[edges]

        tokens = np.flatnonzero(member[layout.state_mdp] >= 0)
        owner, where = member[layout.state_mdp[tokens]], place[tokens]
        active = tokens < layout.n_active
        is_open = np.flatnonzero(active & (layout.n_blank_actions[tokens] > 0))
        untried = owner[is_open, None], believing, where[is_open, None], -1
        reward[untried], discount[untried] = 0.0, 1.0
        transition[owner[is_open], where[is_open], -1, blank[owner[is_open]]] = 1.0
        reward.transpose(0, 2, 3, 1)[np.arange(n) > blank[:, None], -1] = 0.0
        each = np.arange(len(mdps))
        reward[each, :, blank, -1] = model.extreme[mdps]
        discount[each[:, None], certain, blank[:, None], -1] = 1.0
        mine, home = owner[active], where[active]
        transition[mine, blank[mine], -1, home] = 1 / blank[mine]
        return cls(transition, discount, reward, tokens, owner, where, pairs, where_pair)


def _value_iteration(
    z: StatisticsBatch, layout: Layout, model: _Model, mdps: Bools, value: Floats, q_visited: Floats
) -> None:
    """Write V and Q of these MDPs, by sweeps."""
    shape = (len(z.pair), len(layout.state_mdp))
    transition = csr_array((z.successor_probs, layout.successor, offsets_of(z.n_successors)), shape=shape)
    n_active, mdp = layout.n_active, layout.active_mdp
    first_row = np.searchsorted(layout.visited_state, np.arange(n_active))
    is_open = (layout.n_blank_actions[:n_active] > 0)[:, None] & model.believed
    n_known = np.bincount(mdp, minlength=len(model.extreme))
    swept = np.concatenate([np.zeros((n_active, value.shape[1])), model.extreme])
    for _ in range(SWEEPS + n_active):
        q = model.reward + model.discount * (transition @ swept)
        best = np.maximum.reduceat(q, first_row)
        known = np.where(is_open, np.maximum(best, swept[n_active + mdp]), best)
        change = np.abs(known - swept[:n_active]).max()
        swept[:n_active] = known
        for column in np.flatnonzero(~model.believed):
            swept[n_active:, column] = sums_by(mdp, known[:, column], len(n_known)) / np.maximum(n_known, 1)
        if change < SWEEP_TOLERANCE:
            break
    of_states, of_pairs = mdps[layout.state_mdp], mdps[z.pair_mdp]
    value[of_states], q_visited[of_pairs] = swept[of_states], q[of_pairs]
