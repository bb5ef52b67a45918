"""Counts of transitions between integer states: the sufficient statistic Z of exploration, one MDP at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from mdpfn.arrays import Bools, Floats, Ints, sums_by
from mdpfn.checks import a_path, checked_flags, checked_ids, checked_mask, finite_floats
from mdpfn.errors import MdpfnError
from mdpfn.evidence.counts import Counts, Rests, Sums, checked_reward
from mdpfn.evidence.exact import exact_sum
from mdpfn.evidence.table import PairTable

DENSE_KEYS = 16
NOTHING: Sums = ((), ())


class Statistics(Counts):
    """Counts of one MDP, made transition by transition, from arrays, or from other statistics."""

    def add_transitions(
        self,
        states: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        next_states: ArrayLike,
        terminated: ArrayLike | None = None,
    ) -> None:
        """Record many transitions at once, at a fixed cost per distinct (s, a, s')."""
        s, a = checked_ids("states", states, self.n_states), checked_ids("actions", actions, self.n_actions)
        t = checked_ids("next_states", next_states, self.n_states)
        r = finite_floats("rewards", rewards).reshape(-1)
        for extreme in (r.min(initial=0.0), r.max(initial=0.0)):
            checked_reward(extreme)
        ends = np.zeros(len(s), bool) if terminated is None else checked_flags("terminated", terminated)
        for field, column in (("actions", a), ("rewards", r), ("next_states", t), ("terminated", ends)):
            if len(column) != len(s):
                limit = f"there are {len(s)} states"
                raise MdpfnError(field, f"of length {len(column)}", limit, "give one value per transition")
        if len(s) == 0:
            return
        if self.n_states**2 * self.n_actions > np.iinfo(np.int64).max:
            limit = "n_states² · n_actions must stay below 2⁶³"
            raise MdpfnError("n_states", self.n_states, limit, "number the states that occur from 0 on")
        pair = s * self.n_actions + a
        triple, (count, ended) = totals(pair * self.n_states + t, np.ones(len(s)), ends.astype(np.float64))
        visited, (sums, squares) = totals(pair, r, r * r)
        self._add(triple // self.n_states, triple % self.n_states, count, ended, visited, sums, squares)
        self.note_rewards(float(r.min()), float(r.max()))

    @classmethod
    def from_counts(cls, counts: ArrayLike, reward_sums: ArrayLike, terminal: ArrayLike | None = None) -> Statistics:
        """Statistics from N(s, a, s') (S, A, S) and Σ r (S, A); `terminal` a mask or ids of states.

        The single rewards are unknown here: the largest |mean reward| stands in for `reward_scale`, and rewards count
        as if they did not vary.
        """
        n = finite_floats("counts", counts)
        sums = finite_floats("reward_sums", reward_sums)
        if n.ndim != 3 or n.shape[0] != n.shape[2]:
            raise MdpfnError("counts", f"an array of shape {n.shape}", "the shape must be (S, A, S)", "reshape it")
        if sums.shape != n.shape[:2]:
            limit = f"the shape must be (S, A) = {n.shape[:2]}"
            raise MdpfnError("reward_sums", f"an array of shape {sums.shape}", limit, "give one sum per pair")
        if (n < 0).any() or (n != np.floor(n)).any():
            bad = n[(n < 0) | (n != np.floor(n))][0]
            raise MdpfnError("counts", f"{bad} in an entry", "counts are whole and not negative", "correct it")
        visits = n.sum(-1)
        if (sums[visits == 0] != 0).any():
            raise MdpfnError("reward_sums", "not 0 for an unvisited pair", "reward needs a visit", "check the counts")
        result = cls(n.shape[0], n.shape[1])
        pair, successor = np.nonzero(n.reshape(-1, n.shape[2]))
        visited = np.unique(pair)
        count = n.reshape(-1, n.shape[2])[pair, successor]
        mask = checked_mask("terminal", [] if terminal is None else terminal, result.n_states)
        total = sums.reshape(-1)[visited]
        means = total / visits.reshape(-1)[visited]
        result._add(pair, successor, count, count * mask[successor], visited, total, total * means)
        if len(visited):
            result.note_rewards(float(means.min()), float(means.max()))
        result.terminal.update(np.flatnonzero(mask).tolist())
        return result

    @classmethod
    def from_transitions(
        cls,
        states: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        next_states: ArrayLike,
        terminated: ArrayLike | None = None,
        *,
        n_states: int | None = None,
        n_actions: int | None = None,
    ) -> Statistics:
        """Statistics of logged transitions; sizes default to the largest id seen plus one."""
        if n_states is None:
            ids = np.concatenate([checked_ids("states", states), checked_ids("next_states", next_states)])
            n_states = int(ids.max(initial=0)) + 1
        if n_actions is None:
            n_actions = int(checked_ids("actions", actions).max(initial=0)) + 1
        result = cls(n_states, n_actions)
        result.add_transitions(states, actions, rewards, next_states, terminated)
        return result

    @classmethod
    def from_table(cls, z: PairTable, terminal: Iterable[int], reward_min: float, reward_max: float) -> Statistics:
        """Statistics from a table, the terminal states and the range of rewards, which tables do not hold."""
        result = cls(int(z.n_states[0]), int(z.n_actions[0]))
        for state in np.unique(z.forbidden // result.n_actions).tolist():
            pairs = state * result.n_actions + np.arange(result.n_actions)
            result.allow(state, tuple((~np.isin(pairs, z.forbidden)).tolist()))
        result._add_table(z, terminal, reward_min, reward_max)
        return result

    def merge(self, other: Statistics) -> Statistics:
        """Statistics of both data sets together, over the larger of both state spaces.

        Any number of them may be merged in any order: the result is the same bit for bit. Where masks differ, an
        action exists that one of them allows.
        """
        if self.n_actions != other.n_actions:
            raise MdpfnError("n_actions", other.n_actions, f"it must be {self.n_actions}", "merge equal action sets")
        result = Statistics(max(self.n_states, other.n_states), self.n_actions)
        tables = self.table(), other.table()
        key = np.concatenate([z.pair[z.transition_row] * result.n_states + z.successor for z in tables])
        counts = (np.concatenate([getattr(z, name) for z in tables]) for name in ("transition_count", "n_terminated"))
        if len(key):
            triple, (count, ended) = totals(key, *counts)
            mine, theirs = self._exact_sums(tables[0]), other._exact_sums(tables[1])
            sums = {p: _both(mine.get(p, NOTHING), theirs.get(p, NOTHING)) for p in sorted(mine | theirs)}
            result.set_sums(np.divmod(triple, result.n_states), count, ended, sums)
        for each in (self, other):
            result.note_rewards(each.reward_min, each.reward_max)
            result.terminal |= each.terminal
            for state, actions in each._allowed.items():
                before = result._allowed.get(state, (False,) * self.n_actions)
                result._allowed[state] = tuple(a or b for a, b in zip(before, actions, strict=True))
        return result

    def set_sums(self, transitions: tuple[Ints, Ints], count: Floats, terminated: Floats, sums: Rests) -> None:
        """Add counts by (pair, successor), and by visited pair sums of rewards as `exact_sum` gives them."""
        rounded = np.array([[first[0], second[0]] for first, second in sums.values()])
        self._add(*transitions, count, terminated, np.array(list(sums)), rounded[:, 0], rounded[:, 1])
        self.rests = {p: (a[1:], b[1:]) for p, (a, b) in sums.items() if len(a) > 1 or len(b) > 1}

    def _exact_sums(self, z: PairTable) -> Rests:
        """The exact sums of rewards and of their squares of every visited pair."""
        rounded = zip(z.pair.tolist(), z.reward_sum.tolist(), z.reward_square_sum.tolist(), strict=True)
        return {p: _both(((a,), (b,)), self.rests.get(p, NOTHING)) for p, a, b in rounded}

    def renumbered(self, state_ids: Ints, action_ids: Ints, n_states: int, n_actions: int) -> Statistics:
        """The same observations where states and actions have other ids, in spaces of these sizes."""
        result = Statistics(n_states, n_actions)
        z = self.table()
        pair = state_ids[z.state] * n_actions + action_ids[z.action]
        terminal = state_ids[list(self.terminal)].tolist()
        moved = replace(z, pair=pair, successor=state_ids[z.successor])
        result._add_table(moved, terminal, self.reward_min, self.reward_max)
        new_pair = dict(zip(z.pair.tolist(), pair.tolist(), strict=True))
        result.rests = {new_pair[p]: rest for p, rest in self.rests.items() if p in new_pair}
        for state, actions in self._allowed.items():
            mask = np.ones(n_actions, dtype=bool)
            mask[action_ids] = actions
            result._allowed[int(state_ids[state])] = tuple(mask.tolist())
        return result

    def of_pairs(self, z: PairTable, kept: Bools) -> Statistics:
        """Statistics of some of the visited pairs, with counts as in the table `z` of them all."""
        result = Statistics(self.n_states, self.n_actions)
        observed = kept[z.transition_row]
        result._add(
            z.pair[z.transition_row][observed],
            z.successor[observed],
            z.transition_count[observed],
            z.n_terminated[observed],
            z.pair[kept],
            z.reward_sum[kept],
            z.reward_square_sum[kept],
        )
        result.note_rewards(self.reward_min, self.reward_max)
        result._allowed = dict(self._allowed)
        result.rests = {p: self.rests[p] for p in z.pair[kept].tolist() if p in self.rests}
        return result

    def _add_table(self, z: PairTable, terminal: Iterable[int], reward_min: float, reward_max: float) -> None:
        """Add a table of one MDP with its terminal states and its range of rewards."""
        pair = z.pair[z.transition_row]
        sums = z.pair, z.reward_sum, z.reward_square_sum
        self._add(pair, z.successor, z.transition_count, z.n_terminated, *sums)
        self.note_rewards(reward_min, reward_max)
        self.terminal.update(terminal)

    def save(self, path: str | Path) -> None:
        """Write them to a file, for `load` to read."""
        from mdpfn.evidence.store import save_statistics  # late: it imports this module

        save_statistics(self, a_path(path))

    @classmethod
    def load(cls, path: str | Path) -> Statistics:
        """The statistics that `save` wrote to this file."""
        from mdpfn.evidence.store import load_statistics

        return load_statistics(a_path(path))

    def dense_counts(self) -> tuple[Floats, Floats]:
        """N(s, a, s') (S, A, S) and Σ r (S, A)."""
        z = self.table()
        counts = np.zeros((self.n_states * self.n_actions, self.n_states))
        counts[z.pair[z.transition_row], z.successor] = z.transition_count
        sums = np.zeros(self.n_states * self.n_actions)
        sums[z.pair] = z.reward_sum
        shape = (self.n_states, self.n_actions)
        return counts.reshape(*shape, self.n_states), sums.reshape(shape)


def _both(first: Sums, second: Sums) -> Sums:
    """The exact sums of two sets of rewards together."""
    return exact_sum(first[0] + second[0]), exact_sum(first[1] + second[1])


def totals(keys: Ints, *columns: Floats) -> tuple[Ints, list[Floats]]:
    """The distinct keys, ascending, and the sum of every column over each of them."""
    if keys.max() < DENSE_KEYS * len(keys):  # counting is faster than sorting while most of the range is used
        distinct = np.flatnonzero(np.bincount(keys))
        return distinct, [sums_by(keys, column)[distinct] for column in columns]
    distinct, where = np.unique(keys, return_inverse=True)
    return distinct, [sums_by(where, column) for column in columns]
