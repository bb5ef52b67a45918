"""The table of visited pairs, of one MDP or a batch of them: all that planners and the network read.

Only what was observed is stored, so memory grows with distinct transitions, not with |S|². Most tables of a life have
the *structure* of the one before: the same pairs and successors, with other numbers. What follows from the structure
alone is computed once (`of_structure`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Any, TypeVar

import numpy as np

from mdpfn.arrays import (
    Bools,
    Floats,
    ForbiddenInts,
    Ints,
    MDPFloats,
    MDPInts,
    PairFloats,
    PairInts,
    TransitionFloats,
    TransitionInts,
    offsets_of,
)

T = TypeVar("T")


def of_structure(compute: Callable[[PairTable], T]) -> Callable[[PairTable], T]:
    """A function that reads nothing but the structure of its table, computed once for all tables that share it."""

    name = f"{compute.__module__}.{compute.__qualname__}"  # unlike a function, it can be pickled

    @wraps(compute)
    def computed(z: PairTable) -> T:
        known = z.structure
        if name not in known:
            known[name] = compute(z)
        found: T = known[name]
        return found

    return computed


def endings_of(transition_count: Floats, n_terminated: Floats) -> Ints:
    """(observed,) 0, 1 or 2 where none, some or all of these transitions ended their episode."""
    return np.add(n_terminated > 0, n_terminated >= transition_count, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class PairTable:
    """Visited pairs of B MDPs, sorted by (MDP, pair); ids are local to their MDP, counts may be fractional."""

    n_states: MDPInts
    n_actions: MDPInts
    pair_mdp: PairInts  # MDP of a visited pair
    pair: PairInts  # state · n_actions + action
    n_visits: PairFloats  # N(s, a)
    reward_sum: PairFloats  # Σ r over the visits
    reward_square_sum: PairFloats  # Σ r² over the visits
    duration: PairFloats  # steps that a pair takes: its future is discounted by γ^duration
    n_successors: PairInts  # distinct successors, whose entries lie one pair after the other
    successor: TransitionInts  # s'
    transition_count: TransitionFloats  # N(s, a, s')
    n_terminated: TransitionFloats  # how many of them ended their episode for good
    reward_scale: MDPFloats  # what rewards are divided by; observed at use, ρ in training
    forbidden_mdp: ForbiddenInts  # MDP of a pair that action masks do not allow …
    forbidden: ForbiddenInts  # … and the pair, which is never a visited one

    def __len__(self) -> int:
        return len(self.n_states)

    @cached_property
    def structure(self) -> dict[str, Any]:
        """What functions `of_structure` found, for all tables of this structure."""
        return {}

    def with_numbers(self, **numbers: Any) -> PairTable:
        """A table of the same structure with other numbers.

        The structure is everything but the floats; and of floats, of which transitions some or all ended an episode.
        """
        table = replace(self, **numbers)
        vars(table)["structure"] = self.structure
        return table

    @cached_property
    def mean_reward(self) -> Floats:
        """(visited,) r̂(s, a), in the units of the environment."""
        return self.reward_sum / self.n_visits

    @cached_property
    def normalized_reward(self) -> Floats:
        """(visited,) r̂(s, a) divided by the reward scale of its MDP."""
        return self.mean_reward / self.reward_scale[self.pair_mdp]

    @property
    @of_structure
    def state(self) -> Ints:
        """(visited,) the state of each visited pair."""
        return self.pair // self._n_actions

    @property
    @of_structure
    def action(self) -> Ints:
        """(visited,) the action of each visited pair."""
        return self.pair - self.state * self._n_actions

    @property
    def _n_actions(self) -> Ints | int:
        """(visited,) of the MDP of each visited pair; one number, which divides faster, where there is one."""
        return int(self.n_actions[0]) if len(self) == 1 else self.n_actions[self.pair_mdp]

    def discounts(self, discount: Floats) -> Floats:
        """(visited,) γ^duration of every pair, for γ (B,)."""
        gamma = discount[self.pair_mdp]
        lasting = self.duration != 1
        return np.where(lasting, gamma**self.duration, gamma) if lasting.any() else gamma

    @property
    @of_structure
    def transition_row(self) -> Ints:
        """(observed,) the visited pair each observed transition belongs to."""
        return np.repeat(np.arange(len(self.pair)), self.n_successors)

    @property
    @of_structure
    def first_transition(self) -> Ints:
        """(visited + 1,) where the observed transitions of each visited pair begin."""
        return offsets_of(self.n_successors)

    @cached_property
    def successor_probs(self) -> Floats:
        """(observed,) P̂(s' | s, a) = N(s, a, s') / N(s, a)."""
        return self.transition_count / self.n_visits[self.transition_row]

    @cached_property
    def going_on(self) -> Floats:
        """(observed,) the share of these transitions after which the episode went on."""
        return 1 - self.n_terminated / self.transition_count

    def part(self, mdp: int) -> PairTable:
        """The table of one of the MDPs alone."""
        first, last = np.searchsorted(self.pair_mdp, (mdp, mdp + 1))
        seen = offsets_of(self.n_successors)
        mine = self.forbidden_mdp == mdp
        of_mdp = {name: getattr(self, name)[mdp : mdp + 1] for name in ("n_states", "n_actions", "reward_scale")}
        names = ("pair", "n_visits", "reward_sum", "reward_square_sum", "duration", "n_successors")
        of_pair = {name: getattr(self, name)[first:last] for name in names}
        outcomes = ("successor", "transition_count", "n_terminated")
        of_transition = {name: getattr(self, name)[seen[first] : seen[last]] for name in outcomes}
        owner = {
            "pair_mdp": np.zeros_like(self.pair_mdp[first:last]),
            "forbidden_mdp": np.zeros_like(self.forbidden[mine]),
        }
        return PairTable(**of_mdp, **of_pair, **of_transition, **owner, forbidden=self.forbidden[mine])

    def visits_table(self) -> Floats:
        """(S, A) N(s, a) of a batch of one."""
        n_visits = np.zeros(int(self.n_states[0] * self.n_actions[0]))
        n_visits[self.pair] = self.n_visits
        return n_visits.reshape(int(self.n_states[0]), -1)

    def reached_mask(self) -> Bools:
        """(S,) states of a batch of one that were left or reached."""
        reached = np.zeros(int(self.n_states[0]), dtype=bool)
        reached[self.state] = reached[self.successor] = True
        return reached

    def terminal_mask(self) -> Bools:
        """(S,) states of a batch of one in which episodes terminated, and that were never left."""
        terminal = np.zeros(int(self.n_states[0]), dtype=bool)
        terminal[self.successor[self.n_terminated > 0]] = True
        terminal[self.state] = False
        return terminal

    def dense_z(self, mdp: int = 0) -> Floats:
        """(|S||A|, |S| + 2) Z of one MDP: log(1 + N), normalized r̂ and the row P̂ of each pair (A.3).

        Unvisited pairs have no count, no reward and a uniform row.
        """
        n_states, n_actions = int(self.n_states[mdp]), int(self.n_actions[mdp])
        z = np.zeros((n_states * n_actions, n_states + 2))
        mine = self.pair_mdp == mdp
        observed = mine[self.transition_row]
        z[self.pair[mine], 0] = np.log1p(self.n_visits[mine])
        z[self.pair[mine], 1] = self.normalized_reward[mine]
        z[self.pair[self.transition_row[observed]], 2 + self.successor[observed]] = self.successor_probs[observed]
        unvisited = np.ones(len(z), dtype=bool)
        unvisited[self.pair[mine]] = False
        z[unvisited, 2:] = 1 / n_states
        return z

    @classmethod
    def concatenate(cls, tables: Sequence[PairTable]) -> PairTable:
        """All MDPs of these tables, in order."""
        if len(tables) == 1:
            return tables[0]
        first = offsets_of(np.array([len(t) for t in tables]))

        def joined(name: str) -> np.ndarray:
            return np.concatenate([getattr(t, name) for t in tables])

        owners = ("pair_mdp", "forbidden_mdp")
        arrays = {n: joined(n) for n in cls.__dataclass_fields__ if n not in owners}
        for name in owners:
            parts = [getattr(t, name) + start for t, start in zip(tables, first, strict=False)]
            arrays[name] = np.concatenate(parts)
        return cls(**arrays)
