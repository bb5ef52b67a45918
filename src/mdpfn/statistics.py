"""The sufficient statistic Z of exploration: visit counts, mean rewards, empirical transitions.

`Statistics` belongs to one MDP and grows by one transition at a time. `StatisticsBatch` is what the
network reads: the visited pairs of one or many MDPs in flat arrays. Only what was observed is stored,
so memory grows with distinct transitions, not with |S|².
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from numbers import Integral, Real
from operator import index
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from mdpfn.arrays import Bools, Floats, Ints, offsets_of, sums_by
from mdpfn.checks import checked_flags, checked_ids, checked_mask, finite_floats, whole_number
from mdpfn.errors import MdpfnError

DENSE_KEYS = 16


@dataclass(frozen=True, eq=False)
class StatisticsBatch:
    """Visited pairs of B MDPs, sorted by (MDP, pair); ids are local to their MDP."""

    n_states: Ints  # (B,)
    n_actions: Ints  # (B,)
    pair_mdp: Ints  # (visited,) MDP of a visited pair
    pair: Ints  # (visited,) state · n_actions + action
    n_visits: Floats  # (visited,) N(s, a)
    reward_sum: Floats  # (visited,) Σ r over the visits
    n_successors: Ints  # (visited,) distinct successors, whose entries lie one pair after the other
    successor: Ints  # (observed,) s'
    transition_count: Floats  # (observed,) N(s, a, s')
    n_terminated: Floats  # (observed,) how many of them ended their episode for good
    reward_scale: Floats  # (B,) what rewards are divided by; observed at use, ρ in training

    def __len__(self) -> int:
        return len(self.n_states)

    @cached_property
    def mean_reward(self) -> Floats:
        """(visited,) r̂(s, a), in the units of the environment."""
        return self.reward_sum / self.n_visits

    @cached_property
    def normalized_reward(self) -> Floats:
        """(visited,) r̂(s, a) divided by the reward scale of its MDP."""
        return self.mean_reward / self.reward_scale[self.pair_mdp]

    @cached_property
    def transition_row(self) -> Ints:
        """(observed,) the visited pair each observed transition belongs to."""
        return np.repeat(np.arange(len(self.pair)), self.n_successors)

    @cached_property
    def successor_probs(self) -> Floats:
        """(observed,) P̂(s' | s, a) = N(s, a, s') / N(s, a)."""
        return self.transition_count / self.n_visits[self.transition_row]

    @cached_property
    def going_on(self) -> Floats:
        """(observed,) the share of these transitions after which the episode went on."""
        return 1 - self.n_terminated / self.transition_count

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
    def concatenate(cls, batches: Sequence[StatisticsBatch]) -> StatisticsBatch:
        """All MDPs of these batches, in order."""
        if len(batches) == 1:
            return batches[0]
        first = offsets_of(np.array([len(b) for b in batches]))

        def joined(name: str) -> np.ndarray:
            return np.concatenate([getattr(b, name) for b in batches])

        names = [n for n in cls.__dataclass_fields__ if n != "pair_mdp"]
        mdp = np.concatenate([b.pair_mdp + start for b, start in zip(batches, first, strict=False)])
        return cls(pair_mdp=mdp, **{n: joined(n) for n in names})


class Statistics:
    """What was observed of one MDP. `update` costs O(1); everything else reads.

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
        self._reward_sum: dict[int, float] = {}
        self._successors: dict[int, dict[int, float]] = {}
        self._terminated: dict[int, dict[int, float]] = {}  # the same, of transitions that ended their episode
        self._arrays: StatisticsBatch | None = None

    def update(self, state: int, action: int, reward: float, next_state: int, terminated: bool = False) -> None:
        """Record one transition. `terminated` says that nothing can be earned after `next_state`."""
        try:
            state, action, next_state = index(state), index(action), index(next_state)
        except TypeError:
            raise self._bad_id(state, action, next_state) from None
        if not (0 <= state < self.n_states and 0 <= next_state < self.n_states and 0 <= action < self.n_actions):
            raise self._bad_id(state, action, next_state)
        if not (isinstance(reward, Real) and -np.inf < reward < np.inf):
            raise MdpfnError("reward", repr(reward), "it must be a finite number", "drop or repair that transition")
        pair = state * self.n_actions + action
        successors = self._successors.get(pair)
        if successors is None:
            successors = self._successors[pair] = {}
            self._reward_sum[pair] = 0.0
        successors[next_state] = successors.get(next_state, 0) + 1
        reward = float(reward)  # whatever number it was: sums must not be of its type
        self._reward_sum[pair] += reward
        self._note_reward(reward, reward)
        if terminated:
            ended = self._terminated.setdefault(pair, {})
            ended[next_state] = ended.get(next_state, 0) + 1
            self.terminal.add(next_state)
        self.n_transitions += 1
        self._arrays = None

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
        triple, (count, ended) = _totals(pair * self.n_states + t, np.ones(len(s)), ends.astype(np.float64))
        visited, (sums,) = _totals(pair, r)
        self._add(triple // self.n_states, triple % self.n_states, count, ended, visited, sums)
        self._note_reward(float(r.min()), float(r.max()))

    @classmethod
    def from_counts(cls, counts: ArrayLike, reward_sums: ArrayLike, terminal: ArrayLike | None = None) -> Statistics:
        """Statistics from N(s, a, s') (S, A, S) and Σ r (S, A); `terminal` a mask or ids of states.

        The single rewards are unknown here, so the largest |mean reward| stands in for `reward_scale`.
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
        result._add(pair, successor, count, count * mask[successor], visited, sums.reshape(-1)[visited])
        if len(visited):
            means = (sums.reshape(-1) / np.maximum(visits.reshape(-1), 1))[visited]
            result._note_reward(float(means.min()), float(means.max()))
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
        """Statistics of both data sets together, over the larger of both state spaces."""
        if self.n_actions != other.n_actions:
            raise MdpfnError("n_actions", other.n_actions, f"it must be {self.n_actions}", "merge equal action sets")
        result = self.resized(max(self.n_states, other.n_states), self.n_actions)
        result._add_batch(other.batch(), other.terminal, other.reward_min, other.reward_max)
        return result

    def resized(self, n_states: int, n_actions: int) -> Statistics:
        """The same observations in spaces that are at least as large."""
        for field, size, least in (("n_states", n_states, self.n_states), ("n_actions", n_actions, self.n_actions)):
            if size < least:
                raise MdpfnError(field, size, f"there are {least} already", "give at least as many")
        result = Statistics(n_states, n_actions)
        z = self.batch()
        pair = z.pair // self.n_actions * n_actions + z.pair % self.n_actions
        result._add_batch(replace(z, pair=pair), self.terminal, self.reward_min, self.reward_max)
        return result

    @classmethod
    def from_batch(
        cls, z: StatisticsBatch, terminal: Iterable[int], reward_min: float, reward_max: float
    ) -> Statistics:
        """Statistics from the arrays in `batch`, with what these do not hold."""
        result = cls(int(z.n_states[0]), int(z.n_actions[0]))
        result._add_batch(z, terminal, reward_min, reward_max)
        return result

    def save(self, directory: str | Path) -> None:
        """Write them to a directory, for `load` to read."""
        from mdpfn.statistics_store import save_statistics  # late: it imports torch

        save_statistics(self, Path(directory))

    @classmethod
    def load(cls, directory: str | Path) -> Statistics:
        """The statistics that `save` wrote to this directory."""
        from mdpfn.statistics_store import load_statistics

        return load_statistics(Path(directory))

    @property
    def reward_scale(self) -> float:
        """The largest |reward| seen so far, or 1 before any."""
        largest = max(abs(self.reward_min), abs(self.reward_max)) if self._reward_sum else 0.0
        return largest or 1.0

    def make_room(self, n_states: int) -> None:
        """Let the ids of states run to at least n_states − 1."""
        if n_states > self.n_states:
            self.n_states = n_states
            self._arrays = None

    @property
    def n_visited(self) -> int:
        """How many pairs were visited."""
        return len(self._reward_sum)

    def terminal_mask(self) -> Bools:
        """(S,) states seen to be terminal."""
        mask = np.zeros(self.n_states, dtype=bool)
        mask[list(self.terminal)] = True
        return mask

    def batch(self) -> StatisticsBatch:
        """The same as flat arrays: a batch of one."""
        if self._arrays is None:
            pairs = np.array(sorted(self._successors), dtype=np.int64)
            rows = [self._successors[p] for p in pairs.tolist()]
            n_successors = np.array([len(row) for row in rows], dtype=np.int64)
            total = int(n_successors.sum())
            successor = np.fromiter(chain.from_iterable(rows), np.int64, total)
            count = np.fromiter(chain.from_iterable(row.values() for row in rows), np.float64, total)
            n_visits = np.add.reduceat(count, offsets_of(n_successors)[:-1]) if rows else np.zeros(0)
            self._arrays = StatisticsBatch(
                n_states=np.array([self.n_states]),
                n_actions=np.array([self.n_actions]),
                pair_mdp=np.zeros(len(pairs), dtype=np.int64),
                pair=pairs,
                n_visits=n_visits,
                reward_sum=np.array([self._reward_sum[p] for p in pairs.tolist()], dtype=np.float64),
                n_successors=n_successors,
                successor=successor,
                transition_count=count,
                n_terminated=self._terminated_counts(pairs, successor, n_successors),
                reward_scale=np.array([self.reward_scale]),
            )
        return self._arrays

    def dense_counts(self) -> tuple[Floats, Floats]:
        """N(s, a, s') (S, A, S) and Σ r (S, A)."""
        z = self.batch()
        counts = np.zeros((self.n_states * self.n_actions, self.n_states))
        counts[z.pair[z.transition_row], z.successor] = z.transition_count
        sums = np.zeros(self.n_states * self.n_actions)
        sums[z.pair] = z.reward_sum
        shape = (self.n_states, self.n_actions)
        return counts.reshape(*shape, self.n_states), sums.reshape(shape)

    def _add_batch(self, z: StatisticsBatch, terminal: Iterable[int], reward_min: float, reward_max: float) -> None:
        """Add what a batch of one and the rest of its statistics hold."""
        self._add(z.pair[z.transition_row], z.successor, z.transition_count, z.n_terminated, z.pair, z.reward_sum)
        self._note_reward(reward_min, reward_max)
        self.terminal.update(terminal)

    def _add(self, pair: Ints, successor: Ints, count: Floats, terminated: Floats, visited: Ints, sums: Floats) -> None:
        """Add counts per (pair, successor), all and terminated ones, and reward sums per visited pair."""
        ended = np.flatnonzero(terminated)
        _accumulate(self._successors, pair, successor, count)
        _accumulate(self._terminated, pair[ended], successor[ended], terminated[ended])
        self.n_transitions += int(count.sum())
        self.terminal.update(successor[ended].tolist())
        for p, total in zip(visited.tolist(), sums.tolist(), strict=True):
            self._reward_sum[p] = self._reward_sum.get(p, 0.0) + total
        self._arrays = None

    def _terminated_counts(self, pairs: Ints, successor: Ints, n_successors: Ints) -> Floats:
        """(observed,) how many of the transitions to each successor ended their episode."""
        if not self._terminated:
            return np.zeros(len(successor))
        observed = zip(np.repeat(pairs, n_successors).tolist(), successor.tolist(), strict=True)
        nothing: dict[int, float] = {}
        return np.fromiter(
            (self._terminated.get(p, nothing).get(s, 0) for p, s in observed), np.float64, len(successor)
        )

    def _note_reward(self, low: float, high: float) -> None:
        if low < self.reward_min:
            self.reward_min = low
        if high > self.reward_max:
            self.reward_max = high

    def _bad_id(self, state: int, action: int, next_state: int) -> MdpfnError:
        for field, value, n in (
            ("state", state, self.n_states),
            ("action", action, self.n_actions),
            ("next_state", next_state, self.n_states),
        ):
            if not (isinstance(value, Integral) and 0 <= value < n):
                limit = f"ids are whole numbers from 0 to {n - 1}"
                return MdpfnError(field, repr(value), limit, "check the size of the space")
        raise AssertionError("called with good ids")


def _accumulate(table: dict[int, dict[int, float]], pair: Ints, successor: Ints, count: Floats) -> None:
    """Add counts to a table by pair and successor."""
    for p, s, n in zip(pair.tolist(), successor.tolist(), count.tolist(), strict=True):
        row = table.setdefault(p, {})
        row[s] = row.get(s, 0) + n


def _totals(keys: Ints, *columns: Floats) -> tuple[Ints, list[Floats]]:
    """The distinct keys, ascending, and the sum of every column over each of them."""
    if keys.max() < DENSE_KEYS * len(keys):  # counting is faster than sorting while most of the range is used
        distinct = np.flatnonzero(np.bincount(keys))
        return distinct, [sums_by(keys, column)[distinct] for column in columns]
    distinct, where = np.unique(keys, return_inverse=True)
    return distinct, [sums_by(where, column) for column in columns]
