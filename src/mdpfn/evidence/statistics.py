"""Counts of transitions between integer states: the sufficient statistic Z of exploration, one MDP at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from numbers import Integral, Real
from operator import index
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from mdpfn.arrays import Bools, Floats, Ints, sums_by
from mdpfn.checks import a_path, checked_flags, checked_ids, checked_mask, finite_floats, whole_number
from mdpfn.errors import MdpfnError, shown
from mdpfn.evidence.exact import exact_sum
from mdpfn.evidence.patching import TableRows
from mdpfn.evidence.protocol import Novelty, Transition
from mdpfn.evidence.table import PairTable

DENSE_KEYS = 16
Sums: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]
"""Parts of a sum of rewards and of the sum of their squares."""
Rests: TypeAlias = dict[int, Sums]
NOTHING: Sums = ((), ())
LARGEST_REWARD = 1e150  # so that neither sums of rewards nor sums of their squares overflow


class Statistics:
    """What was observed of one MDP. `add` costs O(1); everything else reads.

    `reward_scale` is the largest |reward| observed so far (the paper's running maximum), 1 before
    the first non-zero reward. `terminal` holds the states in which an episode was seen to terminate. An episode
    may also go on from such a state (in Blackjack it does), so every transition counts how often it terminated.
    """

    def __init__(self, n_states: int, n_actions: int) -> None:
        self.n_states = whole_number("n_states", n_states, low=1)
        self.n_actions = whole_number("n_actions", n_actions, low=1)
        self.terminal: set[int] = set()
        self.reward_min, self.reward_max = np.inf, -np.inf
        self.n_transitions = 0
        self._n_visits: dict[int, float] = {}
        self._reward_sum: dict[int, float] = {}
        self._reward_square_sum: dict[int, float] = {}
        self._successors: dict[int, dict[int, float]] = {}
        self._terminated: dict[int, dict[int, float]] = {}  # the same, of transitions that ended their episode
        self.rests: Rests = {}  # what rounding took from the two sums, where they are kept exactly
        self._allowed: dict[int, tuple[bool, ...]] = {}  # actions of states that have a mask
        self._table: PairTable | None = None  # of all this; None if anything has changed since the last one, …
        self._base: PairTable | None = None  # … which then is made anew only in the rows of …
        self._changed: set[int] = set()  # … these pairs, and in the masks of …
        self._masked: set[int] = set()  # … these states

    def allow(self, state: int, actions: tuple[bool, ...]) -> None:
        """Take note that only these of its actions exist in a state: a truth value for each."""
        if self._allowed.get(state) != actions:
            self._mask_changes(state)
            self._table = None
            self._allowed[state] = actions

    def mask(self, state: int) -> tuple[bool, ...] | None:
        """Which actions exist in a state; None where all do, as far as is known."""
        return self._allowed.get(state)

    def add(self, transition: Transition) -> Novelty:
        """Record one transition and say what was new about it."""
        state, action, next_state = self._checked_ids(transition)
        reward, before = checked_reward(transition.reward), self.reward_scale
        pair = state * self.n_actions + action
        self._changed.add(pair)  # first of all: an interrupt may follow
        self._table = None
        successors = self._successors.setdefault(pair, {})
        count = successors.get(next_state, 0.0)
        n_visits = self._n_visits.get(pair, 0.0) + 1
        successors[next_state] = count + 1
        self._n_visits[pair] = n_visits
        self._reward_sum[pair] = self._reward_sum.get(pair, 0.0) + reward
        self._reward_square_sum[pair] = self._reward_square_sum.get(pair, 0.0) + reward * reward
        self.note_rewards(reward, reward)
        if transition.terminated:
            ended = self._terminated.setdefault(pair, {})
            ended[next_state] = ended.get(next_state, 0) + 1
            self.terminal.add(next_state)
        self.n_transitions += 1
        return Novelty(n_visits, new_successor=count == 0, new_scale=self.reward_scale != before)

    def before(self, transition: Transition) -> tuple[Any, ...]:
        """What `take_back` needs to forget a transition that is about to be added, as if it had never been."""
        pair, following = transition.state * self.n_actions + transition.action, transition.next_state
        nothing: dict[int, float] = {}
        return (
            pair,
            following,
            self._n_visits.get(pair),
            self._reward_sum.get(pair),
            self._reward_square_sum.get(pair),
            self._successors.get(pair, nothing).get(following),
            self._terminated.get(pair, nothing).get(following),
            following in self.terminal,
            (self.reward_min, self.reward_max, self.n_transitions, self._table),
        )

    def take_back(self, before: tuple[Any, ...]) -> None:
        """Put back what was before a transition, of which all, some or nothing may have been added."""
        pair, following, *sums, n_following, n_ended, was_terminal, rest = before
        self._changed.add(pair)
        for table, value in zip((self._n_visits, self._reward_sum, self._reward_square_sum), sums, strict=True):
            _put_back(table, pair, value)
        for rows, value in ((self._successors, n_following), (self._terminated, n_ended)):
            if pair in rows:
                _put_back(rows[pair], following, value)
                _put_back(rows, pair, rows[pair] or None)
        if not was_terminal:
            self.terminal.discard(following)
        self.reward_min, self.reward_max, self.n_transitions, self._table = rest

    def before_naming(self, state: int) -> tuple[Any, ...]:
        """What `take_back_naming` needs to forget that there is such a state, and what a mask says of it."""
        return state, self.n_states, self._allowed.get(state), self._table

    def take_back_naming(self, before: tuple[Any, ...]) -> None:
        """Put back what was before a state was named or masked."""
        state, self.n_states, allowed, self._table = before
        self._mask_changes(state)
        _put_back(self._allowed, state, allowed)

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
        """Take over counts by (pair, successor) and, by visited pair, sums as `exact_sum` gives them."""
        rounded = np.array([[first[0], second[0]] for first, second in sums.values()])
        self._add(*transitions, count, terminated, np.array(list(sums)), rounded[:, 0], rounded[:, 1])
        self.rests = {p: (a[1:], b[1:]) for p, (a, b) in sums.items() if len(a) > 1 or len(b) > 1}

    def _exact_sums(self, z: PairTable) -> Rests:
        """Both sums of every visited pair, with what rounding took from them."""
        rounded = zip(z.pair.tolist(), z.reward_sum.tolist(), z.reward_square_sum.tolist(), strict=True)
        return {p: _both(((a,), (b,)), self.rests.get(p, NOTHING)) for p, a, b in rounded}

    def resized(self, n_states: int, n_actions: int) -> Statistics:
        """The same observations in spaces that are at least as large."""
        for field, size, least in (("n_states", n_states, self.n_states), ("n_actions", n_actions, self.n_actions)):
            if size < least:
                raise MdpfnError(field, size, f"there are {least} already", "give at least as many")
        return self.renumbered(np.arange(self.n_states), np.arange(self.n_actions), n_states, n_actions)

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

    @classmethod
    def from_table(cls, z: PairTable, terminal: Iterable[int], reward_min: float, reward_max: float) -> Statistics:
        """Statistics from the arrays of `table`, with what these do not hold."""
        result = cls(int(z.n_states[0]), int(z.n_actions[0]))
        for state in np.unique(z.forbidden // result.n_actions).tolist():
            pairs = state * result.n_actions + np.arange(result.n_actions)
            result.allow(state, tuple((~np.isin(pairs, z.forbidden)).tolist()))
        result._add_table(z, terminal, reward_min, reward_max)
        return result

    def save(self, path: str | Path) -> None:
        """Write them to a file, for `load` to read."""
        from mdpfn.evidence.store import save_statistics  # late: it imports this module

        save_statistics(self, a_path(path))

    @classmethod
    def load(cls, path: str | Path) -> Statistics:
        """The statistics that `save` wrote to this file."""
        from mdpfn.evidence.store import load_statistics

        return load_statistics(a_path(path))

    @property
    def reward_scale(self) -> float:
        """The largest |reward| seen so far, or 1 before any."""
        return max(abs(self.reward_min), abs(self.reward_max)) or 1.0 if self._reward_sum else 1.0

    def make_room(self, n_states: int) -> None:
        """Let the ids of states run to at least n_states − 1."""
        if n_states > self.n_states:
            self.n_states = n_states
            self._table = None

    @property
    def n_visited(self) -> int:
        """How many pairs were visited."""
        return len(self._reward_sum)

    def terminal_mask(self) -> Bools:
        """(S,) states seen to be terminal."""
        mask = np.zeros(self.n_states, dtype=bool)
        mask[list(self.terminal)] = True
        return mask

    def table(self) -> PairTable:
        """The same as flat arrays: a batch of one. Only rows that have changed since the last one are made anew."""
        if self._table is None:
            base = self._base
            changed = sorted(self._successors if base is None else self._changed)
            forbidden = self._forbidden(base)
            rows = self._rows([p for p in changed if p in self._successors and self._exists(p)])
            columns = vars(rows) if base is None else rows.in_place_of(base, np.array(changed, dtype=np.int64))
            self._table = self._base = PairTable(
                n_states=np.array([self.n_states]),
                n_actions=np.array([self.n_actions]),
                pair_mdp=np.zeros(len(columns["pair"]), dtype=np.int64),
                duration=np.ones(len(columns["pair"])),
                reward_scale=np.array([self.reward_scale]),
                forbidden_mdp=np.zeros(len(forbidden), dtype=np.int64),
                forbidden=forbidden,
                **columns,
            )
            self._changed, self._masked = set(), set()
        return self._table

    def _rows(self, pairs: list[int]) -> TableRows:
        sums = self._n_visits, self._reward_sum, self._reward_square_sum
        return TableRows.of(pairs, *sums, self._successors, self._terminated)

    def _exists(self, pair: int) -> bool:
        """Whether a mask allows the pair, as far as there is one."""
        allowed = self._allowed.get(pair // self.n_actions)
        return allowed is None or allowed[pair % self.n_actions]

    def _forbidden(self, base: PairTable | None) -> Ints:
        """The pairs that masks do not allow, ascending, from those of the last table."""
        if base is not None and not self._masked:
            return base.forbidden
        states = self._allowed.keys() if base is None else self._masked & self._allowed.keys()
        pairs = (s * self.n_actions + a for s in states for a, allowed in enumerate(self._allowed[s]) if not allowed)
        new = np.fromiter(pairs, np.int64)
        if base is not None:
            stays = ~np.isin(base.forbidden // self.n_actions, list(self._masked))
            new = np.concatenate([base.forbidden[stays], new])
        return np.sort(new)

    def _mask_changes(self, state: int) -> None:
        """Take note that the rows of a state are to be made anew, for its mask is another."""
        self._masked.add(state)
        self._changed.update(range(state * self.n_actions, (state + 1) * self.n_actions))

    def dense_counts(self) -> tuple[Floats, Floats]:
        """N(s, a, s') (S, A, S) and Σ r (S, A)."""
        z = self.table()
        counts = np.zeros((self.n_states * self.n_actions, self.n_states))
        counts[z.pair[z.transition_row], z.successor] = z.transition_count
        sums = np.zeros(self.n_states * self.n_actions)
        sums[z.pair] = z.reward_sum
        shape = (self.n_states, self.n_actions)
        return counts.reshape(*shape, self.n_states), sums.reshape(shape)

    def _add_table(self, z: PairTable, terminal: Iterable[int], reward_min: float, reward_max: float) -> None:
        """Add what a table of one MDP and the rest of its statistics hold."""
        pair = z.pair[z.transition_row]
        sums = z.pair, z.reward_sum, z.reward_square_sum
        self._add(pair, z.successor, z.transition_count, z.n_terminated, *sums)
        self.note_rewards(reward_min, reward_max)
        self.terminal.update(terminal)

    def _add(
        self,
        pair: Ints,
        successor: Ints,
        count: Floats,
        terminated: Floats,
        visited: Ints,
        reward_sum: Floats,
        reward_square_sum: Floats,
    ) -> None:
        """Add counts per (pair, successor), all and terminated ones, and sums of rewards per visited pair."""
        ended = np.flatnonzero(terminated)
        _accumulate_rows(self._successors, pair, successor, count)
        _accumulate_rows(self._terminated, pair[ended], successor[ended], terminated[ended])
        _accumulate(self._n_visits, pair, count)
        _accumulate(self._reward_sum, visited, reward_sum)
        _accumulate(self._reward_square_sum, visited, reward_square_sum)
        self.n_transitions += int(count.sum())
        self.terminal.update(successor[ended].tolist())
        self._table = self._base = None

    def note_rewards(self, low: float, high: float) -> None:
        """Widen the range of observed rewards."""
        if low < self.reward_min:
            self.reward_min = low
        if high > self.reward_max:
            self.reward_max = high

    def _checked_ids(self, transition: Transition) -> tuple[int, int, int]:
        """State, action and next state as plain integers within their spaces."""
        state, action, _, next_state = transition[:4]
        try:
            ids = index(state), index(action), index(next_state)
        except TypeError:
            ids = -1, -1, -1
        if 0 <= ids[0] < self.n_states and 0 <= ids[1] < self.n_actions and 0 <= ids[2] < self.n_states:
            return ids
        for field, n in (("state", self.n_states), ("action", self.n_actions), ("next_state", self.n_states)):
            value = getattr(transition, field)
            if not isinstance(value, Integral) or not 0 <= int(value) < n:
                limit = f"ids are whole numbers from 0 to {n - 1}"
                raise MdpfnError(field, shown(value), limit, "check the size of the space")
        raise AssertionError("some id is out of range")


def checked_reward(reward: Any) -> float:
    """The reward as a plain float: sums must not be of whatever type it was."""
    if type(reward) is float and -LARGEST_REWARD <= reward <= LARGEST_REWARD:
        return reward
    if isinstance(reward, np.floating):  # the limit is beyond some of its types, and would become infinite
        reward = float(reward)
    if not (isinstance(reward, Real) and -LARGEST_REWARD <= reward <= LARGEST_REWARD):  # type: ignore[operator]
        limit = f"it must be a finite number, at most {LARGEST_REWARD:g} in size"
        raise MdpfnError("reward", shown(reward), limit, "drop, repair or rescale it")
    return float(reward)


def _put_back(table: dict[int, Any], key: int, value: Any) -> None:
    """What a table held for a key; None if it held nothing."""
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _both(first: Sums, second: Sums) -> Sums:
    """The exact sums of two sets of rewards together."""
    return exact_sum(first[0] + second[0]), exact_sum(first[1] + second[1])


def _accumulate(table: dict[int, float], pair: Ints, values: Floats) -> None:
    """Add values to a table by pair."""
    for p, value in zip(pair.tolist(), values.tolist(), strict=True):
        table[p] = table.get(p, 0.0) + value


def _accumulate_rows(table: dict[int, dict[int, float]], pair: Ints, successor: Ints, count: Floats) -> None:
    """Add counts to a table by pair and successor."""
    for p, s, n in zip(pair.tolist(), successor.tolist(), count.tolist(), strict=True):
        row = table.setdefault(p, {})
        row[s] = row.get(s, 0) + n


def totals(keys: Ints, *columns: Floats) -> tuple[Ints, list[Floats]]:
    """The distinct keys, ascending, and the sum of every column over each of them."""
    if keys.max() < DENSE_KEYS * len(keys):  # counting is faster than sorting while most of the range is used
        distinct = np.flatnonzero(np.bincount(keys))
        return distinct, [sums_by(keys, column)[distinct] for column in columns]
    distinct, where = np.unique(keys, return_inverse=True)
    return distinct, [sums_by(where, column) for column in columns]
