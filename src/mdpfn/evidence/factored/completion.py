"""Untried pairs, predicted from what tried ones have in common, in one table with what was observed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints, offsets_of
from mdpfn.evidence.factored.config import FactoredConfig
from mdpfn.evidence.factored.effects import ROUNDING, Effects, Predictions, Tried
from mdpfn.evidence.factored.factors import Factors
from mdpfn.evidence.protocol import Transition
from mdpfn.evidence.table import PairTable


class Completion:
    """Completes tables of states whose `factors` are known; what it remembers only saves time."""

    def __init__(self, factors: Callable[[int], Factors], config: FactoredConfig = FactoredConfig()) -> None:  # noqa: B008
        self.factors, self.config = factors, config
        self._known: dict[int, tuple[tuple[bytes, ...], Effects | None]] = {}  # by action: what of, and its effects
        self._predicted: dict[int, tuple[int, float, bool]] = {}  # by pair, of the last table: what is surely to come

    def __call__(self, table: PairTable) -> PairTable:
        """The table with predictions beside what was observed."""
        factors = self.factors(int(table.n_states[0]))
        self._predicted = {}
        if not 2 <= len(factors.sizes) <= self.config.most_factors or not factors.countable or not len(table.pair):
            return table
        candidates = self._untried(table, factors)
        found: list[tuple[int, Predictions]] = []
        for action in range(int(table.n_actions[0])):
            effects = self._effects(table, factors, action)
            if effects is not None:
                found.append((action, effects.predict(np.flatnonzero(candidates[:, action]))))
        return self._joined(table, found) if found else table

    def foresaw(self, pair: int, transition: Transition) -> bool:
        """Whether a transition is what the last table surely predicted of its pair."""
        successor, reward, ended = self._predicted.get(pair, (-1, 0.0, False))
        close = abs(reward - transition.reward) <= 1e-6 * max(abs(reward), abs(transition.reward))
        return successor == transition.next_state and close and ended == transition.terminated

    def _untried(self, z: PairTable, factors: Factors) -> Bools:
        """(S, A) pairs that may be predicted: not in terminal states, and, where there are many states, in seen ones."""
        states = factors.known & ~z.terminal_mask()
        if len(states) > self.config.most_states:
            states &= z.reached_mask()
        untried = np.repeat(states[:, None], int(z.n_actions[0]), axis=1)
        untried.reshape(-1)[z.pair] = False
        untried.reshape(-1)[z.forbidden] = False
        return untried

    def _effects(self, z: PairTable, factors: Factors, action: int) -> Effects | None:
        """What an action does, found anew only if anything was seen of it since."""
        rows = np.flatnonzero((z.action == action) & factors.known[z.state])
        if len(rows) < 2:
            return None
        entries = np.isin(z.transition_row, rows)
        square = z.reward_square_sum[rows] / z.n_visits[rows]
        noisy = (z.n_successors[rows] > 1).any() or bool(
            (square - z.mean_reward[rows] ** 2 > ROUNDING * square).any()
        )
        parts = [z.n_states, z.pair[rows], z.successor[entries], z.mean_reward[rows], z.n_terminated[entries] > 0, z.forbidden]
        parts += [z.transition_count[entries]] if noisy else []
        seen = tuple(part.tobytes() for part in parts)
        if self._known.get(action, ((),))[0] != seen:
            tried = _tried(z, factors, action, rows, entries, square)
            self._known[action] = seen, None if tried is None else Effects.of(tried, factors, self.config)
        return self._known[action][1]

    def _joined(self, z: PairTable, found: list[tuple[int, Predictions]]) -> PairTable:
        """The table with what was found of actions; nothing follows what is predicted to end an episode."""
        n_states, n_actions = int(z.n_states[0]), int(z.n_actions[0])
        start = offsets_of(np.array([len(one.state) for _, one in found]))
        state = np.concatenate([one.state for _, one in found])
        pair = np.concatenate([one.state * n_actions + action for action, one in found])
        visits = np.concatenate([one.visits for _, one in found])
        reward = np.concatenate([one.reward for _, one in found])
        row = np.concatenate([one.row + first for (_, one), first in zip(found, start, strict=False)])
        successor, share, ended = (
            np.concatenate([getattr(one, name) for _, one in found]) for name in ("successor", "share", "ended")
        )
        ends, left = np.zeros((2, n_states), dtype=bool)
        ends[successor[ended > 0]] = True
        left[z.state] = True
        kept = ~(ends & ~left)[state]
        place, stays = np.cumsum(kept) - 1, kept[row]
        row, successor, share, ended = place[row[stays]], successor[stays], share[stays], ended[stays]
        pair, visits, reward = pair[kept], visits[kept], reward[kept]
        only = np.bincount(row, minlength=len(pair))[row] == 1
        surely = zip(successor[only].tolist(), reward[row[only]].tolist(), (ended[only] > 0).tolist(), strict=True)
        self._predicted = dict(zip(pair[row[only]].tolist(), surely, strict=True))
        return _with_pairs(z, pair, visits, reward, row, successor, share * visits[row], ended)


def _tried(z: PairTable, factors: Factors, action: int, rows: Ints, entries: Bools, square: Floats) -> Tried | None:
    """What was seen of one action; None where it led to states whose factors are not known."""
    if not factors.known[z.successor[entries]].all():
        return None
    n_actions = int(z.n_actions[0])
    masked = np.unique(z.forbidden // n_actions)
    state = np.union1d(masked, z.state[rows]) if len(masked) else masked
    return Tried(
        codes=factors.codes[z.state[rows]],
        state=z.state[rows],
        visits=z.n_visits[rows],
        reward=z.mean_reward[rows],
        square=square,
        row=np.searchsorted(rows, z.transition_row[entries]),
        successor=z.successor[entries],
        after=factors.codes[z.successor[entries]],
        count=z.transition_count[entries],
        ended=z.n_terminated[entries],
        existing=(state, ~np.isin(state * n_actions + action, z.forbidden)),
    )


def _with_pairs(
    z: PairTable, pair: Ints, n: Floats, reward: Floats, row: Ints, successor: Ints, count: Floats, ended: Floats
) -> PairTable:
    """The table of one MDP with more pairs."""
    pairs = np.concatenate([z.pair, pair])
    order = np.argsort(pairs)
    rows = np.argsort(order)[np.concatenate([z.transition_row, len(z.pair) + row])]
    by_row = np.argsort(rows, kind="stable")

    def of_pairs(old: Floats, new: Floats) -> Floats:
        return np.concatenate([old, new])[order]

    def of_entries(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        return np.concatenate([old, new])[by_row]

    return replace(
        z,
        pair_mdp=np.zeros(len(pairs), dtype=np.int64),
        pair=pairs[order],
        n_visits=of_pairs(z.n_visits, n),
        reward_sum=of_pairs(z.reward_sum, n * reward),
        reward_square_sum=of_pairs(z.reward_square_sum, n * reward**2),
        duration=of_pairs(z.duration, np.ones(len(pair))),
        n_successors=np.bincount(rows, minlength=len(pairs)),
        successor=of_entries(z.successor, successor),
        transition_count=of_entries(z.transition_count, count),
        n_terminated=of_entries(z.n_terminated, ended * count),
    )
