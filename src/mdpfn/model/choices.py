"""Optimal values of a sparse model with choices in every state, starting from the values before a small change.

    V(s) = max(floor(s), max over the choices c of s of  gain(c) + weight(c) Σ_s' P(s' | c) V(s'))

Small models are solved exactly, to rounding: a few sweeps from the last values tell which choices are best, values of
these choices solve a linear system, and as long as another choice is better then, both are repeated (Puterman and
Shin 1978). From values that are nearly right one system is the rule. Large ones are swept to a tolerance, where after
the first sweep only those states are visited again for which something has changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csc_array, csr_array

from mdpfn.arrays import Floats, Ints, offsets_of, ranges_of

DENSE_STATES = 150  # up to here a dense system is solved faster than a sparse one
EXACT_STATES = 300  # beyond, the system of a noisy model becomes expensive
SWEEPS_BETWEEN = 2  # before a system: values travel by one state in each
MAX_IMPROVEMENTS = 100
ROUNDING = 1e-10  # relative; a choice that is better by less is not better
FORGOTTEN = 1e-18  # what is weighted by less does not count
DOUBLINGS = 60  # of what is followed at once
MANY = 8  # times as many states as are to be visited, and no more: then all are
MAX_SWEEPS = 60  # of a large model: the next solution goes on where this one ends


@dataclass(frozen=True, eq=False)
class Choices:
    """What may be chosen in each of n states, one state after the other, and what it leads to.

    Entries of P lie one choice after the other; n in the place of a following state is everything outside.
    """

    first: Ints  # (n,) the first choice of each state; each has one
    state: Ints  # (choices,) ascending
    start: Ints  # (choices,) the first entry of each; each has one
    following: Ints  # (entries,)
    probability: Floats  # (entries,)
    gain: Floats  # (choices,)
    weight: Floats  # (choices,)
    floor: Floats  # (n,) −∞ for none
    outside: float | None  # what everything outside is worth; None: what states are worth on average

    @property
    def n_entries(self) -> Ints:
        """(choices,) how many places each may lead to."""
        return np.diff(self.start, append=len(self.following))

    @property
    def are_certain(self) -> bool:
        """Whether every choice leads to one place only."""
        return len(self.start) == len(self.following)


@dataclass(frozen=True, eq=False)
class Solution:
    """Values of the best choices."""

    q: Floats  # (choices,)
    value: Floats  # (n,)


def solve(choices: Choices, start: Floats, tolerance: float) -> Solution:
    """The solution, found from values (n,) to start from; exact where there are few states, else to a tolerance."""
    if len(start) <= EXACT_STATES or choices.are_certain:
        return _exact(choices, start)
    return swept(choices, start, tolerance, MAX_SWEEPS)


def _exact(choices: Choices, value: Floats) -> Solution:
    """Values of the best choices, to rounding."""
    for _ in range(MAX_IMPROVEMENTS):
        q, best = _backup(choices, value)
        if (np.abs(best - value) <= ROUNDING * (1 + np.abs(value))).all():
            break
        for _ in range(SWEEPS_BETWEEN):
            q, best = _backup(choices, best)
        value = _value_of(choices, _chosen(choices, q, best))
    return Solution(q, best)


def _backup(choices: Choices, value: Floats) -> tuple[Floats, Floats]:
    """(choices,) Q = gain + weight Σ P V and (n,) what the best choice of each state is worth, or its floor."""
    q = np.concatenate((value, (_outside(choices, value),))).take(choices.following)
    q *= choices.probability
    if not choices.are_certain:
        q = np.add.reduceat(q, choices.start)
    q *= choices.weight
    q += choices.gain
    best = np.maximum.reduceat(q, choices.first)
    return q, np.maximum(best, choices.floor, out=best)


def _outside(choices: Choices, value: Floats) -> float:
    return float(value.sum()) / len(value) if choices.outside is None else choices.outside


def _chosen(choices: Choices, q: Floats, best: Floats) -> Ints:
    """(n,) the first of the best choices of each state; −1 where its floor is better."""
    chosen = np.full(len(best), -1)
    found = np.flatnonzero(q == best.take(choices.state))[::-1]  # the first is written last
    chosen[choices.state.take(found)] = found
    return chosen


def _value_of(choices: Choices, chosen: Ints) -> Floats:
    """(n,) V = gain + weight P V of one choice in each state, or its floor: exact.

    Everything outside is one state more. Where it is worth mean V, V = earned + leaves · mean V is solved for the mean.
    """
    n, free = len(chosen), np.flatnonzero(chosen >= 0)
    rows = chosen.take(free)
    pays = np.zeros((1 if choices.outside is not None else 2, n + 1))
    pays[0, :n] = choices.floor
    pays[0, free] = choices.gain.take(rows)
    pays[-1, n] = 1.0 if choices.outside is None else choices.outside
    if choices.are_certain:
        source, entry, weight = free, rows, choices.weight.take(rows)
    else:
        lengths = choices.n_entries[rows]
        entry = ranges_of(choices.start[rows], lengths)
        source, weight = np.repeat(free, lengths), np.repeat(choices.weight[rows], lengths)
    moves = source, choices.following.take(entry), weight * choices.probability.take(entry)
    solved = _followed if choices.are_certain else _dense if n <= DENSE_STATES else _sparse
    value, *leaves = solved(moves, pays)[:, :n]
    if leaves:
        value = value + leaves[0] * (value.mean() / (1 - leaves[0].mean()))
    return np.asarray(value, dtype=np.float64)


def _followed(moves: tuple[Ints, Ints, Floats], pays: Floats) -> Floats:
    """(k, n) X = pays + M X, where every state has one move at most: followed for 1, 2, 4, 8 … steps at once."""
    source, target, share = moves
    n = pays.shape[1]
    following, weight = np.arange(n), np.zeros(n)
    following[source], weight[source] = target, share
    for _ in range(DOUBLINGS):
        if weight.max() < FORGOTTEN:
            break
        pays = pays + weight * pays.take(following, axis=1)
        weight *= weight.take(following)
        following = following.take(following)
    return pays


def _dense(moves: tuple[Ints, Ints, Floats], pays: Floats) -> Floats:
    """(k, n) X = pays + M X."""
    n = pays.shape[1]
    source, target, share = moves
    left = np.bincount(source * n + target, share, minlength=n * n).reshape(n, n)
    return np.asarray(np.linalg.solve(np.eye(n) - left, pays.T).T, dtype=np.float64)


def _sparse(moves: tuple[Ints, Ints, Floats], pays: Floats) -> Floats:
    """(k, n) X = pays + M X."""
    from scipy.sparse.linalg import splu  # late: its import takes longer than a plan

    source, target, share = moves
    each = np.arange(pays.shape[1])
    place = np.concatenate([each, source]), np.concatenate([each, target])
    left = csc_array((np.concatenate([np.ones(len(each)), -share]), place), shape=(len(each), len(each)))
    found: Floats = splu(left).solve(np.ascontiguousarray(pays.T)).T
    return found


def swept(choices: Choices, value: Floats, tolerance: float, max_sweeps: int = MAX_SWEEPS) -> Solution:
    """Values after sweeps, until no backup would change one by more than `tolerance`.

    A value that has changed by that much since it was last told makes the states before it be visited again.
    """
    n, q, sweep = len(value), np.zeros(len(choices.state)), _Sweep(choices)
    value = np.append(value, _outside(choices, value))
    told, due = value.copy(), np.arange(n)
    for _ in range(max_sweeps):
        if MANY * len(due) > n:  # to visit all is faster than to find those of some
            sweep.visit_all(value, q)
        else:
            sweep.visit(due, value, q)
        value[n] = _outside(choices, value[:n])
        news = np.flatnonzero(np.abs(value - told) > tolerance)
        told[news] = value[news]
        due = sweep.states_before(news)
        if not len(due):
            break
    return Solution(q, value[:n])


class _Sweep:
    """What visits of the states of a large model need, prepared once."""

    def __init__(self, choices: Choices) -> None:
        self.choices, self.n = choices, len(choices.first)
        self.n_entries, self.n_choices = choices.n_entries, np.diff(choices.first, append=len(choices.state))
        start = np.append(choices.start, len(choices.following))
        shape = len(choices.start), self.n + 1
        self.transition = csr_array((choices.probability, choices.following, start), shape=shape)
        # The first choice of each state, the second one, …; where there are no more, the last one once more.
        self.ranks = [choices.first + np.minimum(rank, self.n_choices - 1) for rank in range(self.n_choices.max())]

    def visit_all(self, value: Floats, q: Floats) -> None:
        """Renew the values of all states and choices."""
        q[:] = self.transition @ value
        q *= self.choices.weight
        q += self.choices.gain
        best = self.choices.floor
        for choice in self.ranks:
            best = np.maximum(best, q.take(choice))
        value[: self.n] = best

    def visit(self, states: Ints, value: Floats, q: Floats) -> None:
        """Renew the values and choices of these states, ascending."""
        choices, n_choices = self.choices, self.n_choices[states]
        rows = ranges_of(choices.first[states], n_choices)
        n_entries = self.n_entries[rows]
        entries = ranges_of(choices.start[rows], n_entries)
        future = choices.probability[entries] * value[choices.following[entries]]
        q[rows] = choices.gain[rows] + choices.weight[rows] * np.add.reduceat(future, offsets_of(n_entries)[:-1])
        best = np.maximum.reduceat(q[rows], offsets_of(n_choices)[:-1])
        value[states] = np.maximum(best, choices.floor[states])

    def states_before(self, following: Ints) -> Ints:
        """(m,) from which states one may come to one of these, ascending; all of them where these are many."""
        if MANY * len(following) > self.n:
            return np.arange(self.n)
        state, start, n_entries = self._before
        mark = np.zeros(self.n, dtype=bool)
        mark[state[ranges_of(start[following], n_entries[following])]] = True
        return np.flatnonzero(mark)

    @cached_property
    def _before(self) -> tuple[Ints, Ints, Ints]:
        """The predecessors of all states, state after state; where those of each state begin, and how many they are."""
        following = self.choices.following
        state = np.repeat(self.choices.state, self.n_entries)[np.argsort(following, kind="stable")]
        n_entries = np.bincount(following, minlength=self.n + 1)
        return state, offsets_of(n_entries), n_entries
