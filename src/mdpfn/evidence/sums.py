"""Sums of logged transitions by state, action, next state and end.

Any engine that can group can make such sums; added up in any order, they give the same statistics to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints, sums_by
from mdpfn.evidence.exact import FINE, digits, from_digits
from mdpfn.evidence.statistics import Statistics, totals

GOES_ON, TERMINATED, TRUNCATED = 0, 1, 2  # what follows a transition: another one, nothing, nothing that is known
N_ENDS = 3
FOLDED_ROWS = 200_000  # rows to keep before equal ones are added up


@dataclass(frozen=True, eq=False)
class Rewards:
    """Counts and sums of rewards, of rows or of groups of rows."""

    count: Floats  # (k,) how many transitions
    total: Floats  # (k,) Σ r
    squares: Floats  # (k,) Σ r²
    total_digits: Floats  # (3, k) the same as sums of digits
    square_digits: Floats  # (3, k)
    low: Floats  # (k,) the smallest reward
    high: Floats  # (k,)

    @classmethod
    def of_rows(cls, reward: Floats, count: Floats) -> Rewards:
        """One reward per row, for each of `count` transitions."""
        total, squares = reward * count, reward * reward * count
        return cls(count, total, squares, digits(total), digits(squares), reward, reward)

    def __getitem__(self, rows: Bools | Ints) -> Rewards:
        """Some of the rows."""
        return replace(self, **{field.name: getattr(self, field.name)[..., rows] for field in fields(self)})


@dataclass(eq=False)
class TransitionSums:
    """Sums by (state, action, next state, end), growing with the data."""

    low: float = np.inf
    high: float = -np.inf
    _keys: Ints | None = None  # (4, k)
    _sums: Floats | None = None  # (9, k)

    def add(self, keys: Ints, rewards: Rewards) -> None:
        """Add rows or groups of rows, by (4, k) state, action, next state and end."""
        if keys.shape[1] == 0:
            return
        self.low, self.high = min(self.low, float(rewards.low.min())), max(self.high, float(rewards.high.max()))
        plain = np.stack([rewards.count, rewards.total, rewards.squares])
        sums = np.concatenate([plain, rewards.total_digits, rewards.square_digits])
        keys, sums = _folded(keys, sums)
        if self._keys is not None and self._sums is not None:
            keys, sums = np.concatenate([self._keys, keys], axis=1), np.concatenate([self._sums, sums], axis=1)
        self._keys, self._sums = _folded(keys, sums) if keys.shape[1] > FOLDED_ROWS else (keys, sums)

    @property
    def table(self) -> tuple[Ints, Floats]:
        """(4, k) state, action, next state and end of every kind of transition in ascending order, and (k,) counts."""
        if self._keys is None or self._sums is None:
            return np.zeros((4, 0), dtype=np.int64), np.zeros(0)
        self._keys, self._sums = _folded(self._keys, self._sums)
        return self._keys, self._sums[0]

    def statistics(self, n_states: int, n_actions: int) -> Statistics:
        """The statistics of everything added so far."""
        (state, action, next_state, end), count = self.table
        result = Statistics(n_states, n_actions)
        if self._sums is None:
            return result
        pair = state * n_actions + action
        ended = count * (end == TERMINATED)
        triple, (counts, n_ended) = totals(pair * n_states + next_state, count, ended)
        visited, sums = totals(pair, *self._sums[1:])
        plain, exact = sums[:2], (np.stack(sums[2:5]), np.stack(sums[5:8]))
        if max(abs(self.low), abs(self.high)) >= FINE:
            parts = list(zip(*map(from_digits, exact), strict=True))
        else:
            parts = [((total,), (squares,)) for total, squares in zip(*(s.tolist() for s in plain), strict=True)]
        by_pair = dict(zip(visited.tolist(), parts, strict=True))
        result.set_sums(np.divmod(triple, n_states), counts, n_ended, by_pair)
        result.note_rewards(self.low, self.high)
        return result


def _folded(keys: Ints, sums: Floats) -> tuple[Ints, Floats]:
    """Equal keys added up, in ascending order."""
    sizes = keys.max(axis=1) + 1
    flat = ((keys[0] * sizes[1] + keys[1]) * sizes[2] + keys[2]) * N_ENDS + keys[3]
    distinct, columns = totals(flat, *sums)
    rest, end = np.divmod(distinct, N_ENDS)
    rest, next_state = np.divmod(rest, sizes[2])
    state, action = np.divmod(rest, sizes[1])
    return np.stack([state, action, next_state, end]), np.stack(columns)


def net_starts(state: Ints, next_state: Ints, end: Ints, count: Floats, n_states: int) -> Floats:
    """(S,) how many episodes began in each state, from counts alone: departures less arrivals that went on.

    Whoever leaves a state either arrived there by a transition after which the episode went on, or began there.
    """
    goes_on = end == GOES_ON
    return sums_by(state, count, n_states) - sums_by(next_state[goes_on], count[goes_on], n_states)
