"""Counts of transitions between integer states, which can be undone, and the table of pairs that they give."""

from __future__ import annotations

from numbers import Integral, Real
from operator import index
from typing import Any, TypeAlias

import numpy as np

from mdpfn.arrays import Floats, Ints
from mdpfn.checks import whole_number
from mdpfn.errors import MdpfnError, shown
from mdpfn.evidence.patching import TableRows
from mdpfn.evidence.protocol import Novelty, Transition
from mdpfn.evidence.table import PairTable

Sums: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]
"""Parts of a sum of rewards and of the sum of their squares."""
Rests: TypeAlias = dict[int, Sums]
LARGEST_REWARD = 1e150  # so that neither sums of rewards nor sums of their squares overflow


class Counts:
    """Counts of the transitions of one MDP. Adding a transition costs O(1).

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
        self._terminated: dict[int, dict[int, float]] = {}  # those of _successors that ended their episode
        self.rests: Rests = {}  # the rounding errors of the two sums, where these are kept exactly
        self._allowed: dict[int, tuple[bool, ...]] = {}  # state -> which of its actions exist, where a mask says so
        self._table: PairTable | None = None  # the current table; None if anything changed since the last one …
        self._base: PairTable | None = None  # … which is kept here, and will be updated in the rows of …
        self._changed: set[int] = set()  # … these pairs, and in the masks of …
        self._masked: set[int] = set()  # … these states

    def allow(self, state: int, actions: tuple[bool, ...]) -> None:
        """Note which actions exist in a state, as one bool per action."""
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
        """What `take_back` needs to undo a transition that is about to be added."""
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
        """Undo a transition, even if it was added only in part."""
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
        """What `take_back_naming` needs to undo a new state or a new mask of a state."""
        return state, self.n_states, self._allowed.get(state), self._table

    def take_back_naming(self, before: tuple[Any, ...]) -> None:
        """Undo a new state or a new mask of a state."""
        state, self.n_states, allowed, self._table = before
        self._mask_changes(state)
        _put_back(self._allowed, state, allowed)

    def make_room(self, n_states: int) -> None:
        """Grow to at least this many states."""
        if n_states > self.n_states:
            self.n_states = n_states
            self._table = None

    def note_rewards(self, low: float, high: float) -> None:
        """Widen the range of observed rewards."""
        if low < self.reward_min:
            self.reward_min = low
        if high > self.reward_max:
            self.reward_max = high

    @property
    def reward_scale(self) -> float:
        """The largest |reward| seen so far, or 1 before any."""
        return max(abs(self.reward_min), abs(self.reward_max)) or 1.0 if self._reward_sum else 1.0

    @property
    def n_visited(self) -> int:
        """How many pairs were visited."""
        return len(self._reward_sum)

    def forbidden_visits(self) -> list[int]:
        """The pairs that were visited though a mask forbids them, which the table leaves out."""
        return [pair for pair in sorted(self._reward_sum) if not self._exists(pair)]

    def table(self) -> PairTable:
        """The counts as flat arrays, a batch of one MDP; only rows that changed since the last call are rebuilt."""
        if self._table is None:
            self._table = self._base = self._new_table(self._base)
            self._changed, self._masked = set(), set()
        return self._table

    def _new_table(self, base: PairTable | None) -> PairTable:
        """The table, from the one before if there was one."""
        changed = sorted(self._successors if base is None else self._changed)
        rows = self._rows([p for p in changed if p in self._successors and self._exists(p)])
        forbidden, reward_scale = self._forbidden(base), np.array([self.reward_scale])
        if base is not None and forbidden is base.forbidden and self.n_states == base.n_states[0]:
            numbers = rows.numbers_in(base) if len(rows.pair) == len(changed) else None
            if numbers is not None:
                return base.with_numbers(**numbers, reward_scale=reward_scale)
        columns = vars(rows) if base is None else rows.in_place_of(base, np.array(changed, dtype=np.int64))
        return PairTable(
            n_states=np.array([self.n_states]),
            n_actions=np.array([self.n_actions]),
            pair_mdp=np.zeros(len(columns["pair"]), dtype=np.int64),
            duration=np.ones(len(columns["pair"])),
            reward_scale=reward_scale,
            forbidden_mdp=np.zeros(len(forbidden), dtype=np.int64),
            forbidden=forbidden,
            **columns,
        )

    def _rows(self, pairs: list[int]) -> TableRows:
        sums = self._n_visits, self._reward_sum, self._reward_square_sum
        return TableRows.of(pairs, *sums, self._successors, self._terminated)

    def _exists(self, pair: int) -> bool:
        """Whether no mask forbids the pair."""
        allowed = self._allowed.get(pair // self.n_actions)
        return allowed is None or allowed[pair % self.n_actions]

    def _forbidden(self, base: PairTable | None) -> Ints:
        """The pairs that masks forbid, ascending; `base` is the last table."""
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
        """Note that the rows of a state must be rebuilt, as its mask changed."""
        self._masked.add(state)
        self._changed.update(range(state * self.n_actions, (state + 1) * self.n_actions))

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
    """The reward as a Python float; refuses what is not finite or too large to sum."""
    if type(reward) is float and -LARGEST_REWARD <= reward <= LARGEST_REWARD:
        return reward
    if isinstance(reward, np.floating):  # the limit is beyond some of its types, and would become infinite
        reward = float(reward)
    if not (isinstance(reward, Real) and -LARGEST_REWARD <= reward <= LARGEST_REWARD):  # type: ignore[operator]
        limit = f"it must be a finite number, at most {LARGEST_REWARD:g} in size"
        raise MdpfnError("reward", shown(reward), limit, "drop, repair or rescale it")
    return float(reward)


def _put_back(table: dict[int, Any], key: int, value: Any) -> None:
    """Restore the value of a key; None removes it."""
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _accumulate(table: dict[int, float], pair: Ints, values: Floats) -> None:
    """Add values to a table by pair."""
    for p, value in zip(pair.tolist(), values.tolist(), strict=True):
        table[p] = table.get(p, 0.0) + value


def _accumulate_rows(table: dict[int, dict[int, float]], pair: Ints, successor: Ints, count: Floats) -> None:
    """Add counts to a table by pair and successor."""
    for p, s, n in zip(pair.tolist(), successor.tolist(), count.tolist(), strict=True):
        row = table.setdefault(p, {})
        row[s] = row.get(s, 0) + n
