"""Finite Markov decision processes: one (`TabularMDP`) and many side by side (`MDPBatch`).

A *pair* is a state with an action. Pairs are numbered `state * n_actions + action`, so transitions
are one sparse matrix with a row per pair and a column per state. A batch of MDPs of different sizes
is the same thing with the matrices on a block diagonal: nothing is padded, and every solver that
works on one MDP works on a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from mdpfn.arrays import Bools, Floats, Ints, entry_rows, offsets_of, sums_by
from mdpfn.checks import checked_mask, finite_floats, whole_number
from mdpfn.errors import MdpfnError

ROW_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class TabularMDP:
    """M = (S, A, P, r, γ) with a start distribution and terminal states.

    Build it with `from_dense` or `from_sparse`, which check their input. A terminal state is
    absorbing and pays nothing, whatever its rows said.
    """

    transition: csr_array  # (S·A, S), rows sum to 1
    reward: Floats  # (S, A) expected immediate reward r(s, a)
    discount: float
    start: Floats  # (S,) distribution of the first state
    terminal: Bools  # (S,)
    outcome_reward: Floats  # (nnz,) reward of each stored transition, aligned with transition.data
    reward_std: Floats  # (S, A) standard deviation of Gaussian noise on every reward

    @classmethod
    def from_dense(cls, transition: ArrayLike, reward: ArrayLike, **rest: Any) -> TabularMDP:
        """The MDP with P of shape (S, A, S) and r of shape (S, A) or (S, A, S)."""
        p = finite_floats("transition", transition)
        if p.ndim != 3 or p.shape[0] != p.shape[2] or 0 in p.shape:
            raise MdpfnError("transition", f"an array of shape {p.shape}", "the shape must be (S, A, S)", "reshape it")
        rows = csr_array(p.reshape(-1, p.shape[2]))
        r = finite_floats("reward", reward)
        if r.shape == p.shape:
            paid = r.reshape(rows.shape)[entry_rows(rows), rows.indices]
            return cls.from_sparse(rows, p.shape[1], outcome_reward=paid, **rest)
        return cls.from_sparse(rows, p.shape[1], reward=r, **rest)

    @classmethod
    def from_sparse(
        cls,
        transition: csr_array,
        n_actions: int,
        *,
        reward: ArrayLike | None = None,
        outcome_reward: ArrayLike | None = None,
        discount: float = 0.95,
        start: ArrayLike | int = 0,
        terminal: ArrayLike | None = None,
        reward_std: ArrayLike | float = 0.0,
    ) -> TabularMDP:
        """The MDP with P as a (S·A, S) sparse matrix and a reward per pair or per stored transition."""
        p = csr_array(transition, dtype=np.float64, copy=True)  # nobody changes what was checked
        n_states, n_actions = p.shape[1], whole_number("n_actions", n_actions, low=1)
        _check_transition(p, n_states, n_actions)
        _check_discount(discount)
        terminal_mask = (
            np.zeros(n_states, dtype=bool) if terminal is None else checked_mask("terminal", terminal, n_states)
        )
        start_dist = _distribution(start, n_states)
        if outcome_reward is None:
            per_pair = finite_floats("reward", np.zeros(p.shape[0]) if reward is None else reward)
            if per_pair.shape not in ((n_states, n_actions), (p.shape[0],)):
                raise MdpfnError(
                    "reward",
                    f"an array of shape {per_pair.shape}",
                    f"the shape must be (S, A) = ({n_states}, {n_actions})",
                    "give one reward per state and action, or one per transition as (S, A, S)",
                )
            outcome = per_pair.reshape(-1)[entry_rows(p)]
        else:
            outcome = finite_floats("outcome_reward", outcome_reward)
            if outcome.shape != (p.nnz,):
                raise MdpfnError(
                    "outcome_reward", f"an array of shape {outcome.shape}", f"the shape must be ({p.nnz},)",
                    "give one reward per stored transition, in their order",
                )  # fmt: skip
        if terminal_mask.any():
            p, outcome = _absorb(p, outcome, terminal_mask, n_actions)
        std = _standard_deviation(reward_std, n_states, n_actions)
        std[terminal_mask] = 0.0
        mean = sums_by(entry_rows(p), p.data * outcome, p.shape[0]).reshape(n_states, n_actions)
        return cls(p, mean, float(discount), start_dist, terminal_mask, outcome, std)

    @classmethod
    def unchecked(cls, transition: csr_array, reward: Floats, discount: float) -> TabularMDP:
        """The MDP of a sampler whose output is right by construction: starts anywhere, never terminates."""
        n_states, n_actions = reward.shape
        return cls(
            transition,
            reward,
            discount,
            start=np.full(n_states, 1 / n_states),
            terminal=np.zeros(n_states, dtype=bool),
            outcome_reward=np.repeat(reward.reshape(-1), np.diff(transition.indptr)),
            reward_std=np.zeros((n_states, n_actions)),
        )

    @property
    def n_states(self) -> int:
        return int(self.reward.shape[0])

    @property
    def n_actions(self) -> int:
        return int(self.reward.shape[1])

    @property
    def first_pair(self) -> Ints:
        """(S,) index of each state's first pair."""
        return np.arange(self.n_states) * self.n_actions

    @property
    def dense_transition(self) -> Floats:
        """(S, A, S) P(s' | s, a)."""
        dense: Floats = self.transition.toarray().reshape(self.n_states, self.n_actions, self.n_states)
        return dense


@dataclass(frozen=True, eq=False)
class MDPBatch:
    """B MDPs side by side: all their states in one axis, all their pairs in another."""

    transition: csr_array  # (pairs, states), block diagonal
    reward: Floats  # (pairs,)
    n_states: Ints  # (B,)
    n_actions: Ints  # (B,)
    discount: Floats  # (B,)

    @classmethod
    def of(cls, mdps: Sequence[TabularMDP]) -> MDPBatch:
        """The batch of these MDPs, in this order."""
        column_start = offsets_of(np.array([m.n_states for m in mdps]))
        entry_start = offsets_of(np.array([m.transition.nnz for m in mdps]))
        blocks = list(zip((m.transition for m in mdps), column_start, entry_start, strict=False))
        indices = np.concatenate([p.indices + column for p, column, _ in blocks])
        indptr = np.concatenate([[0], *(p.indptr[1:] + entry for p, _, entry in blocks)])
        data = np.concatenate([p.data for p, _, _ in blocks])
        return cls(
            transition=csr_array((data, indices, indptr), shape=(len(indptr) - 1, int(column_start[-1]))),
            reward=np.concatenate([m.reward.reshape(-1) for m in mdps]),
            n_states=np.array([m.n_states for m in mdps]),
            n_actions=np.array([m.n_actions for m in mdps]),
            discount=np.array([m.discount for m in mdps]),
        )

    def __len__(self) -> int:
        return len(self.n_states)

    @cached_property
    def n_pairs(self) -> Ints:
        """(B,) pairs of each MDP."""
        return self.n_states * self.n_actions

    @cached_property
    def pair_mdp(self) -> Ints:
        """(pairs,) which MDP a pair belongs to."""
        return np.repeat(np.arange(len(self)), self.n_pairs)

    @cached_property
    def state_mdp(self) -> Ints:
        """(states,) which MDP a state belongs to."""
        return np.repeat(np.arange(len(self)), self.n_states)

    @cached_property
    def first_pair(self) -> Ints:
        """(states,) index of each state's first pair; its other pairs follow it."""
        return offsets_of(self.n_actions[self.state_mdp])[:-1]

    @cached_property
    def reward_scale(self) -> Floats:
        """(B,) ρ = max over pairs of |r(s, a)|; 1 where an MDP pays nothing."""
        largest: Floats = np.maximum.reduceat(np.abs(self.reward), offsets_of(self.n_pairs)[:-1])
        return np.where(largest > 0, largest, 1.0)


def _check_transition(p: csr_array, n_states: int, n_actions: int) -> None:
    if p.shape[0] != n_states * n_actions:
        raise MdpfnError(
            "transition", f"a {p.shape[0]} × {n_states} matrix", f"it needs S·A = {n_states} × {n_actions} rows",
            "give one row per state and action, ordered by state",
        )  # fmt: skip
    if not np.isfinite(p.data).all() or (p.data < 0).any():
        bad = p.data[~(np.isfinite(p.data) & (p.data >= 0))][0]
        raise MdpfnError("transition", f"{bad} in an entry", "probabilities lie in [0, 1]", "correct that entry")
    sums = np.asarray(p.sum(axis=1)).reshape(-1)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > ROW_SUM_TOLERANCE:
        raise MdpfnError(
            "transition", f"a row of sum {sums[worst]:.6g} for state {worst // n_actions}, action {worst % n_actions}",
            f"every row must sum to 1 within {ROW_SUM_TOLERANCE:g}", "normalize that row",
        )  # fmt: skip


def _check_discount(discount: float) -> None:
    if not (isinstance(discount, Real) and 0 <= discount < 1):
        raise MdpfnError("discount", repr(discount), "it must lie in [0, 1)", "use a value such as 0.95")


def _standard_deviation(values: ArrayLike | float, n_states: int, n_actions: int) -> Floats:
    """(n_states, n_actions) standard deviations from one for all or one per pair."""
    std = finite_floats("reward_std", values)
    if std.shape not in ((), (n_states, n_actions)):
        raise MdpfnError(
            "reward_std", f"an array of shape {std.shape}", f"the shape must be (S, A) = ({n_states}, {n_actions})",
            "give one number for all pairs or one per pair",
        )  # fmt: skip
    if (std < 0).any():
        raise MdpfnError("reward_std", f"{std.min()} in an entry", "it must not be negative", "correct that entry")
    return np.broadcast_to(std, (n_states, n_actions)).copy()


def _distribution(start: ArrayLike | int, n_states: int) -> Floats:
    """(n_states,) distribution from a distribution or one state id."""
    if np.ndim(start) == 0:
        return checked_mask("start", start, n_states).astype(np.float64)
    dist = finite_floats("start", start)
    if dist.shape != (n_states,) or (dist < 0).any() or abs(dist.sum() - 1) > ROW_SUM_TOLERANCE:
        raise MdpfnError(
            "start", f"an array of shape {dist.shape} and sum {dist.sum():.6g}",
            f"it must be a distribution over {n_states} states", "give probabilities that sum to 1, or one state id",
        )  # fmt: skip
    return dist


def _absorb(p: csr_array, outcome: Floats, terminal: Bools, n_actions: int) -> tuple[csr_array, Floats]:
    """P and rewards with every pair of a terminal state looping on it for nothing."""
    row = entry_rows(p)
    keep = ~terminal[row // n_actions]
    loops = np.flatnonzero(np.repeat(terminal, n_actions))
    rows = np.concatenate([row[keep], loops])
    columns = np.concatenate([p.indices[keep], loops // n_actions])
    order = np.argsort(rows, kind="stable")
    data = np.concatenate([p.data[keep], np.ones(len(loops))])[order]
    rewards = np.concatenate([outcome[keep], np.zeros(len(loops))])[order]
    indptr = offsets_of(np.bincount(rows, minlength=p.shape[0]))
    return csr_array((data, columns[order], indptr), shape=p.shape), rewards
