"""Exact values of small empirical models: dense policy iteration, many MDPs and planners at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints, offsets_of
from mdpfn.evidence.layout import Layout
from mdpfn.evidence.table import PairTable, of_structure
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
    for places in _chunks(z):
        found = _DenseModel.of(z, assumed, places).solution()
        q[places.pair], v[places.token] = found.q.take(places.of_pair, axis=0), found.v.take(places.of_token, axis=0)
    large = _is_large(z)
    if large.any():
        swept = model.sweep(assumed)
        pairs, states = large[z.pair_mdp], large[model.layout.state_mdp]
        q[pairs], v[states] = swept.q[pairs], swept.v[states]
    return Values(q, v)


@of_structure
def _is_large(z: PairTable) -> Bools:
    """(B,) whether an MDP is too large for a dense model, whatever else is in the batch."""
    large: Bools = (Layout.of(z).n_known + 1) ** 2 * (z.n_actions + 1) > DENSE_ENTRIES
    return large


@of_structure
def _chunks(z: PairTable) -> list[_Places]:
    """The places of all that is not large, in chunks of similar sizes."""
    n_active, chunks = Layout.of(z).n_known, []
    small = np.argsort(n_active, kind="stable")
    small = small[~_is_large(z)[small]]
    while len(small):
        next_ones = small[:CHUNK]
        padded = (n_active[next_ones].max() + 1) ** 2 * (z.n_actions[next_ones].max() + 1)
        n = max(1, min(CHUNK, DENSE_ENTRIES // padded))
        chunks.append(_Places.of(z, small[:n]))
        small = small[n:]
    return chunks


@dataclass(frozen=True, eq=False)
class _Places:
    """Where dense and padded models of some MDPs have what: (MDP, choice, state), as flat places, and state after it.

    The choices of a state are its actions and, last, what stands for all those never taken: to be worth what the
    unvisited state is worth. The unvisited state comes after the active ones; places behind it are worth 0.
    """

    shape: tuple[int, int, int]  # MDPs, choices, states
    mdps: Ints  # (m,) these MDPs …
    unvisited: Ints  # (m,) … and the place of their unvisited state with its only choice
    pair: Ints  # visited pairs of these MDPs …
    of_pair: Ints  # … and their places
    edge: Ints  # observed transitions of these MDPs …
    of_edge: Ints  # … and their places in the matrix of all rows
    token: Ints  # state tokens of these MDPs …
    of_token: Ints  # … and their places among (MDP, state)
    untried: Ints  # places of untried choices …
    of_untried: Ints  # … and where the matrix leads from them: to the unvisited state
    anywhere: Ints  # where the matrix leads from unvisited states: to all active ones, …
    anywhere_probs: Floats  # … with these probabilities
    padding: Ints  # places of one choice of every state that does not exist

    @classmethod
    def of(cls, z: PairTable, mdps: Ints) -> _Places:
        layout = Layout.of(z)
        n_active = layout.n_known
        number = np.append(np.arange(layout.n_active) - offsets_of(n_active)[layout.active_mdp], n_active)
        member = np.full(len(z), -1)
        member[mdps] = np.arange(len(mdps))
        last = n_active[mdps]  # the number of the unvisited state
        n, n_choices = int(last.max()) + 1, int(z.n_actions[mdps].max()) + 1

        def place(mdp: Ints, choice: Ints | int, state: Ints) -> Ints:
            return (mdp * n_choices + choice) * n + state

        pair = np.flatnonzero(member[z.pair_mdp] >= 0)
        of_pair = place(member[z.pair_mdp[pair]], z.action[pair], number[layout.visited_state[pair]])
        of_row = np.zeros(len(z.pair), dtype=np.int64)
        of_row[pair] = of_pair
        edge = np.flatnonzero((member[z.pair_mdp] >= 0)[z.transition_row])
        token = np.flatnonzero(member[layout.state_mdp] >= 0)
        owner, state = member[layout.state_mdp[token]], number[token]
        active = token < layout.n_active
        is_open = active & (layout.n_unvisited_actions[token] > 0)
        untried = place(owner[is_open], n_choices - 1, state[is_open])
        unvisited = place(np.arange(len(mdps)), n_choices - 1, last)
        mine, home = owner[active], state[active]
        behind = np.nonzero(np.arange(n) > last[:, None])
        return cls(
            shape=(len(mdps), n_choices, n),
            mdps=mdps,
            unvisited=unvisited,
            pair=pair,
            of_pair=of_pair,
            edge=edge,
            of_edge=of_row[z.transition_row[edge]] * n + number[layout.successor[edge]],
            token=token,
            of_token=owner * n + state,
            untried=untried,
            of_untried=untried * n + last[owner[is_open]],
            anywhere=unvisited[mine] * n + home,
            anywhere_probs=1 / last[mine],
            padding=place(behind[0], n_choices - 1, behind[1]),
        )


class _Solution(NamedTuple):
    """Q of every place (MDP, choice, state) and V of every (MDP, state), a column for each planner."""

    q: Floats
    v: Floats


@dataclass(frozen=True, eq=False)
class _DenseModel:
    """Models of some MDPs, dense and padded, as `_Places` has it."""

    transition: Floats  # (MDP, choice · state, state) P̂
    discount: Floats  # (MDP, choice · state, planner)
    reward: Floats  # (MDP, choice · state, planner), −∞ where there is no such choice

    @classmethod
    def of(cls, z: PairTable, assumed: Assumptions, places: _Places) -> _DenseModel:
        n_mdps, n_choices, n = places.shape
        transition = np.zeros(n_mdps * n_choices * n * n)
        transition[places.of_edge] = z.successor_probs.take(places.edge)
        transition[places.of_untried] = 1.0
        transition[places.anywhere] = places.anywhere_probs
        discount = np.zeros((n_mdps * n_choices * n, len(assumed.may_try)))
        reward = np.full_like(discount, -np.inf)
        reward[places.of_pair] = assumed.reward.take(places.pair, axis=0)
        discount[places.of_pair] = assumed.discount.take(places.pair, axis=0)
        reward[places.untried] = np.where(assumed.may_try, 0.0, -np.inf)
        discount[places.untried] = assumed.may_try
        reward[places.padding] = 0.0
        reward[places.unvisited] = assumed.unvisited_reward.take(places.mdps, axis=0)
        discount[places.unvisited] = assumed.unvisited_discount.take(places.mdps, axis=0)
        of_mdp = (n_mdps, n_choices * n, -1)
        return cls(transition.reshape(of_mdp), discount.reshape(of_mdp), reward.reshape(of_mdp))

    def backup(self, value: Floats) -> Floats:
        """(MDP, choice, state, planner) Q of V (MDP, state, planner)."""
        q: Floats = self.transition @ value
        q *= self.discount
        q += self.reward
        return q.reshape(len(q), -1, *value.shape[1:])

    def sweep(self, q: Floats, times: int) -> None:
        """Back Q (MDP, choice, state, planner) up this many times, in place."""
        flat = q.reshape(self.reward.shape)
        for _ in range(times):
            np.matmul(self.transition, np.maximum.reduce(q, axis=1), out=flat)
            flat *= self.discount
            flat += self.reward

    def solution(self) -> _Solution:
        """Q and V, exact: solve V = r_π + γ P_π V for the greedy π until π stays."""
        n_mdps, n_rows, n = self.transition.shape
        n_planners = self.reward.shape[2]
        discount, reward = self.discount.reshape(-1, n_planners), self.reward.reshape(-1, n_planners)
        first_row = np.arange(n_mdps)[:, None, None] * n_rows + np.arange(n)[:, None]
        planner, identity = np.arange(n_planners), np.eye(n)
        q = self.reward.reshape(n_mdps, -1, n, n_planners).copy()
        self.sweep(q, FIRST_SWEEPS)  # so that the first policy is a good one
        policy = q.argmax(axis=1)  # (MDP, state, planner)
        for number in range(MAX_IMPROVEMENTS):
            if number == PATIENCE:  # an improvement carries values by one state, as a sweep does, which is cheaper
                self.sweep(q, n)
                policy = q.argmax(axis=1)
            row = first_row + policy * n
            system = self.transition.reshape(-1, n).take(row.transpose(0, 2, 1), axis=0)  # (MDP, planner, state, state)
            system *= -discount[row, planner].transpose(0, 2, 1)[..., None]
            system += identity
            pays = reward[row, planner].transpose(0, 2, 1)[..., None]
            v = np.linalg.solve(system, pays)[..., 0].transpose(0, 2, 1)
            q = self.backup(v)
            held = q.reshape(-1, n_planners)[row, planner]
            better = np.maximum.reduce(q, axis=1) > held + IMPROVEMENT * (1 + np.abs(held))
            if not better.any():
                break
            policy = np.where(better, q.argmax(axis=1), policy)
        return _Solution(q.reshape(-1, n_planners), v.reshape(-1, n_planners))
