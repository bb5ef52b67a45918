"""The one empirical model: what a table of pairs says of P and r, and its solution under any assumptions.

Baselines, planners, values of plans and the features of the network all start here. What they make of ignorance
differs, and is data (`Assumptions`): bonuses and penalties, what a pair is worth that was never visited, whether an
action may be chosen that was never tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array, eye_array

from mdpfn.arrays import (
    Bools,
    Floats,
    Ints,
    MDPInts,
    PlannerBools,
    PlannerMDPFloats,
    PlannerPairFloats,
    PlannerTokenFloats,
    offsets_of,
    sums_by,
)
from mdpfn.evidence.absorbing import with_absorbing
from mdpfn.evidence.layout import Layout
from mdpfn.evidence.table import PairTable

SWEEPS = 400  # and one per state, so that values reach every one
SWEEP_TOLERANCE = 1e-3  # of the largest reward


@dataclass(frozen=True, eq=False)
class Values:
    """Q and V of the empirical model on tokens, a column for each planner."""

    q: PlannerPairFloats
    v: PlannerTokenFloats  # the tokens for what was never visited come last


@dataclass(frozen=True, eq=False)
class Assumptions:
    """What planners make of the same model, a column each."""

    reward: PlannerPairFloats  # what a pair pays
    discount: PlannerPairFloats  # how its future counts
    unvisited_reward: PlannerMDPFloats  # what a pair never visited is worth, beside …
    unvisited_discount: PlannerMDPFloats  # … this part of what known states are worth on average
    may_try: PlannerBools  # whether an action may be chosen that was never tried in its state


@dataclass(frozen=True, eq=False)
class EmpiricalModel:
    """P̂ and r̂ of every visited pair of B MDPs over state tokens; terminal states are absorbing and pay nothing.

    State tokens are the states with a visited pair, then one per MDP that stands for all its other states.
    """

    table: PairTable  # in which terminal states loop on themselves, an additional last one perhaps among them
    layout: Layout
    n_states: MDPInts  # without that additional one

    @classmethod
    def of(cls, observed: PairTable) -> EmpiricalModel:
        """The model of what was observed."""
        table = with_absorbing(observed)
        return cls(table, Layout.of(table), observed.n_states)

    @cached_property
    def transition(self) -> csr_array:
        """(visited, states) P̂(s' | s, a)."""
        z = self.table
        shape = (len(z.pair), len(self.layout.state_mdp))
        return csr_array((z.successor_probs, self.layout.successor, offsets_of(z.n_successors)), shape=shape)

    @property
    def goes_on(self) -> Bools:
        """(visited,) whether the state of a pair is one from which there is something to earn."""
        return self.layout.goes_on

    def discount(self, discount: Floats) -> Floats:
        """(visited,) γ^duration of every pair, for γ (B,); 0 in terminal states."""
        return self.table.discounts(discount) * self.goes_on

    @property
    def n_known(self) -> Ints:
        """(B,) how many states have a token of their own."""
        return self.layout.n_known

    def uniform_row(self, discount: Floats) -> Floats:
        """(B,) part of the mean of known states that a pair is worth which leads anywhere with equal probability (B).

        V = γ (Σ_known V + n V) / S for each of the n unknown states, solved for V.
        """
        n_unknown = self.layout.n_unvisited_states
        share: Floats = discount * self.n_known / (self.n_states - discount * n_unknown)
        return share

    def q_table(self, q: Floats, unvisited: Floats) -> Floats:
        """(pairs,) of every pair of every MDP, from those of visited pairs and of one never visited in each (B,).

        −∞ for pairs that action masks do not allow.
        """
        z, n_pairs = self.table, self.n_states * self.table.n_actions
        full = np.repeat(unvisited, n_pairs)
        mine = z.state < self.n_states[z.pair_mdp]
        full[(offsets_of(n_pairs)[z.pair_mdp] + z.pair)[mine]] = q[mine]
        full[offsets_of(n_pairs)[z.forbidden_mdp] + z.forbidden] = -np.inf
        return full

    def sweep(
        self,
        assumed: Assumptions,
        *,
        limit: float = np.inf,
        max_sweeps: int | None = None,
        tolerance: float = SWEEP_TOLERANCE,
        initial: Floats | None = None,
    ) -> Values:
        """Values by repeated backups Q = clip(r + γ P̂ V, ±limit), V = max_a Q, to a tolerance."""
        layout, n_active, mdp = self.layout, self.layout.n_active, self.layout.active_mdp
        first_row = np.searchsorted(layout.visited_state, np.arange(n_active))
        is_open = (layout.n_unvisited_actions[:n_active] > 0)[:, None] & assumed.may_try
        n_known = np.maximum(self.n_known, 1)[:, None]
        value = np.zeros((len(layout.state_mdp), assumed.reward.shape[1])) if initial is None else initial.copy()
        for number in range(SWEEPS + n_active if max_sweeps is None else max_sweeps):
            known = value[:n_active]
            mean = np.stack([sums_by(mdp, column, len(n_known)) for column in known.T], axis=1) / n_known
            value[n_active:] = assumed.unvisited_reward + assumed.unvisited_discount * mean
            q = assumed.reward + assumed.discount * (self.transition @ value)
            if limit < np.inf:
                q = np.clip(q, -limit, limit)
            best = np.maximum.reduceat(q, first_row) if n_active else known
            new = np.where(is_open, np.maximum(best, value[n_active + mdp]), best)
            change = np.abs(new - known).max(initial=0.0)
            value[:n_active] = new
            if change < tolerance and number:
                break
        return Values(q, value)

    def policy_value(self, policy: Floats, reward: Floats, discount: float) -> Floats:
        """(S,) V = r + γ P̂ V of π (S, A) in the only MDP; r (visited,).

        A pair never visited pays 0 and leads anywhere with equal probability.
        """
        from scipy.sparse.linalg import splu  # late: its import takes longer than a plan

        z, layout, n = self.table, self.layout, self.layout.n_active
        taken = np.append(policy, np.zeros((1, policy.shape[1])), axis=0).reshape(-1)[z.pair]
        gamma = np.array([discount])
        rows = (taken * self.discount(gamma), (layout.visited_state, np.arange(len(z.pair))))
        untried = np.append(1 - sums_by(layout.visited_state, taken, n), 1.0)
        untried[: n + 1][layout.is_terminal[: n + 1]] = 0.0
        pays = np.append(sums_by(layout.visited_state, taken * reward * self.goes_on, n), 0.0)
        # What was never visited is worth m = f · mean V, so V = A⁻¹ (r_π + untried · m) is one rank-one term more
        # than V = A⁻¹ r_π (Sherman and Morrison 1950).
        solve = splu((eye_array(n + 1) - csr_array(rows, shape=(n + 1, len(z.pair))) @ self.transition).tocsc()).solve
        known_part, spread = solve(pays), solve(untried)
        mean = self.uniform_row(gamma)[0] / max(n, 1)
        unvisited = mean * known_part[:n].sum() / (1 - mean * spread[:n].sum())
        value = np.full(int(z.n_states[0]), unvisited)
        value[layout.active] = (known_part + spread * unvisited)[:n]
        return value[: int(self.n_states[0])]
