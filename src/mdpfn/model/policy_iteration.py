"""Exact values of small empirical models: dense policy iteration, many MDPs and planners at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpfn.arrays import Floats, Ints, offsets_of
from mdpfn.model.empirical import Assumptions, EmpiricalModel, Values

DENSE_ENTRIES = 500_000  # of dense models solved at once, states · actions · states: beyond, sweeps are faster
CHUNK = 16  # MDPs solved together at most, of similar sizes
FIRST_SWEEPS = 12  # each costs a fifth of an improvement
PATIENCE = 8  # improvements of a policy after which what matters is far away: a handful is the rule
MAX_IMPROVEMENTS = 100
IMPROVEMENT = 1e-9  # relative; less is rounding


def solve(model: EmpiricalModel, assumed: Assumptions) -> Values:
    """Values of every MDP under every planner's assumptions: exact where it is small, swept where it is large."""
    z, n_planners = model.table, assumed.reward.shape[1]
    q = np.zeros((len(z.pair), n_planners))
    v = np.zeros((len(model.layout.state_mdp), n_planners))
    n_active = model.n_known
    large = (n_active + 1) ** 2 * (z.n_actions + 1) > DENSE_ENTRIES  # whatever else is in the batch
    small = np.argsort(n_active, kind="stable")
    small = small[~large[small]]
    while len(small):
        next_ones = small[:CHUNK]
        padded = (n_active[next_ones].max() + 1) ** 2 * (z.n_actions[next_ones].max() + 1)
        n = max(1, min(CHUNK, DENSE_ENTRIES // padded))
        _iterate(_DenseModel.of(model, assumed, small[:n]), q, v)
        small = small[n:]
    if large.any():
        swept = model.sweep(assumed)
        pairs, states = large[z.pair_mdp], large[model.layout.state_mdp]
        q[pairs], v[states] = swept.q[pairs], swept.v[states]
    return Values(q, v)


def _iterate(dense: _DenseModel, q_visited: Floats, value: Floats) -> None:
    """Write V and Q of these MDPs, exact: solve V = r_π + γ P_π V for the greedy π until π stays."""
    n_mdps, n_planners, n, _ = dense.reward.shape
    mdp, planner, state = np.arange(n_mdps)[:, None, None], np.arange(n_planners)[:, None], np.arange(n)
    q = dense.reward
    for _ in range(FIRST_SWEEPS):  # so that the first policy is a good one
        q = dense.backup(q.max(axis=3))
    policy = q.argmax(axis=3)
    for number in range(MAX_IMPROVEMENTS):
        if number == PATIENCE:  # an improvement carries values by one state, as a sweep does, which is cheaper
            for _ in range(n):
                q = dense.backup(q.max(axis=3))
            policy = q.argmax(axis=3)
        chosen = dense.transition[mdp, state, policy]  # (MDP, planner, state, state)
        chosen *= dense.discount[mdp, planner, state, policy][..., None]
        v = np.linalg.solve(np.eye(n) - chosen, dense.reward[mdp, planner, state, policy][..., None])[..., 0]
        q = dense.backup(v)
        held = q[mdp, planner, state, policy]
        better = q.max(axis=3) > held + IMPROVEMENT * (1 + np.abs(held))
        if not better.any():
            break
        policy = np.where(better, q.argmax(axis=3), policy)
    value[dense.token] = v[dense.token_mdp, :, dense.token_place]
    q_visited[dense.pair] = q[dense.pair_place]


@dataclass(frozen=True, eq=False)
class _DenseModel:
    """Models of some MDPs, dense and padded: (MDP, state, choice, state).

    The choices of a state are its actions and, last, what stands for all those never taken: to be worth what the
    unvisited state is worth. The unvisited state comes after the active ones; places behind it are worth 0.
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
    def of(cls, model: EmpiricalModel, assumed: Assumptions, mdps: Ints) -> _DenseModel:
        z, layout, n_active = model.table, model.layout, model.n_known
        place = np.append(np.arange(layout.n_active) - offsets_of(n_active)[layout.active_mdp], n_active)
        unvisited = n_active[mdps]
        member = np.full(len(z), -1)
        member[mdps] = np.arange(len(mdps))
        n, n_choices = int(unvisited.max()) + 1, int(z.n_actions[mdps].max()) + 1
        transition = np.zeros((len(mdps), n, n_choices, n))
        n_planners = len(assumed.may_try)
        discount = np.zeros((len(mdps), n_planners, n, n_choices))
        reward = np.full((len(mdps), n_planners, n, n_choices), -np.inf)

        pairs = np.flatnonzero(member[z.pair_mdp] >= 0)
        where_pair = member[z.pair_mdp[pairs]], slice(None), place[layout.visited_state[pairs]], z.action[pairs]
        reward[where_pair], discount[where_pair] = assumed.reward[pairs], assumed.discount[pairs]
        edges = np.flatnonzero((member[z.pair_mdp] >= 0)[z.transition_row])
        row = z.transition_row[edges]
        m, s, t = member[z.pair_mdp[row]], place[layout.visited_state[row]], place[layout.successor[edges]]
        transition[m, s, z.action[row], t] = z.successor_probs[edges]

        tokens = np.flatnonzero(member[layout.state_mdp] >= 0)
        owner, where = member[layout.state_mdp[tokens]], place[tokens]
        active = tokens < layout.n_active
        is_open = np.flatnonzero(active & (layout.n_unvisited_actions[tokens] > 0))
        untried = owner[is_open, None], np.flatnonzero(assumed.may_try), where[is_open, None], -1
        reward[untried], discount[untried] = 0.0, 1.0
        transition[owner[is_open], where[is_open], -1, unvisited[owner[is_open]]] = 1.0
        reward.transpose(0, 2, 3, 1)[np.arange(n) > unvisited[:, None], -1] = 0.0
        each = np.arange(len(mdps))
        reward[each, :, unvisited, -1] = assumed.unvisited_reward[mdps]
        discount[each, :, unvisited, -1] = assumed.unvisited_discount[mdps]
        mine, home = owner[active], where[active]
        transition[mine, unvisited[mine], -1, home] = 1 / unvisited[mine]
        return cls(transition, discount, reward, tokens, owner, where, pairs, where_pair)
