"""Where the data is thin, so that the prior carries the estimate."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints
from mdpfn.evidence import Statistics
from mdpfn.plan import Plan
from mdpfn.planners.overruling import THIN_VISITS

SCARCE = 0.3  # share of the pairs of reached states; where fewer were tried, the budget was too small
EXAMPLES = 5  # how many of many a summary names


class CoverageWarning(UserWarning):
    """The data says nothing about some action where every episode starts."""


@dataclass(frozen=True, eq=False)
class Coverage:
    """How often every pair was visited, and where that is too seldom."""

    n_visits: Floats  # (S, A) N(s, a)
    exists: Bools  # (S, A) whether action masks allow a pair
    reached: Bools  # (S,) states that appear in the data
    terminal: Bools  # (S,) of these, the ones that nothing follows
    start_states: Mapping[int, int] | None  # id -> episodes that started there; None where the data does not tell
    plan: Plan

    @classmethod
    def of(cls, statistics: Statistics, start_states: Mapping[int, int] | None, plan: Plan) -> Coverage:
        """The coverage of these statistics."""
        z = statistics.table()
        n_visits = z.visits_table()
        exists = np.ones(n_visits.shape, dtype=bool)
        exists.reshape(-1)[z.forbidden] = False
        return cls(n_visits, exists, z.reached_mask(), z.terminal_mask(), start_states, plan)

    @cached_property
    def thin(self) -> Bools:
        """(S, A) pairs of reached states with fewer than `THIN_VISITS` visits."""
        decisions = self.reached & ~self.terminal
        return decisions[:, None] & self.exists & (self.n_visits < THIN_VISITS)

    @cached_property
    def thin_choices(self) -> Ints:
        """Ids of the states whose greedy action has few visits: there the plan rests on the prior."""
        return np.flatnonzero(self.thin[np.arange(len(self.thin)), self.plan.greedy])

    @cached_property
    def untried_at_start(self) -> Ints:
        """(n, 2) (state, action) ids of the actions never taken in a start state."""
        starts = np.array(sorted(self.start_states or ()), dtype=np.int64)
        state, action = np.nonzero(self.exists[starts] & (self.n_visits[starts] == 0))
        return np.stack([starts[state], action], axis=1)

    def warn(self) -> None:
        """Warn if some action was never tried in a start state."""
        if len(self.untried_at_start):
            warnings.warn(self._untried(), CoverageWarning, stacklevel=3)

    def __repr__(self) -> str:
        return f"Coverage({int(self.reached.sum())} states reached, {int((self.n_visits > 0).sum())} pairs tried)"

    def __str__(self) -> str:
        n_reached, n_terminal = int(self.reached.sum()), int(self.terminal.sum())
        n_pairs, n_tried = int(self.exists[self.reached & ~self.terminal].sum()), int((self.n_visits > 0).sum())
        lines = [
            f"{n_reached} of {len(self.reached)} states reached, {n_terminal} of them terminal; "
            f"{n_tried} of the others' {n_pairs} state-action pairs tried",
        ]
        if self.thin.any():
            n_thin, n_chosen = int(self.thin.sum()), len(self.thin_choices)
            chosen = [self.plan.states[i] for i in self.thin_choices[: EXAMPLES + 1]]
            where = f"in {counted(n_chosen, 'state')}, where the prior carries the estimate: {_some(chosen)}"
            lines.append(
                f"{counted(n_thin, 'pair')} with fewer than {THIN_VISITS} visits; the greedy action is one of them "
                f"{where if n_chosen else 'nowhere'}"
            )
        elif n_pairs:
            lines.append(f"every one of these pairs has at least {THIN_VISITS} visits")
        if n_tried < SCARCE * n_pairs:
            lines.append("far more pairs exist than were tried: more episodes, or fewer and coarser states, would help")
        if self.start_states is None:
            lines.append("the rows do not follow each other as in episodes, so where these start is not known")
        if len(self.untried_at_start):
            lines.append(self._untried())
        return "\n".join(lines)

    def _untried(self) -> str:
        pairs = [f"{self.plan.actions[a]} in {self.plan.states[s]}" for s, a in self.untried_at_start[: EXAMPLES + 1]]
        return f"start states were never left by some actions, of which the data says nothing: {_some(pairs)}"


def counted(n: int, noun: str) -> str:
    """The number with its noun, in the plural if need be."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _some(items: Sequence[object]) -> str:
    """The first few items as text."""
    return ", ".join(map(str, items[:EXAMPLES])) + (", …" if len(items) > EXAMPLES else "")
