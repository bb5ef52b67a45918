"""The explorer's plans solved from scratch, as an oracle: the table from all counts, plain value iteration from zero.

Nothing is kept from plan to plan but what the rule itself carries, so actions must be the same, and only time differs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
from scipy.sparse import csr_array

from mdpfn.evidence import PairTable, Statistics
from mdpfn.exploration import earning
from mdpfn.exploration.earning import EarningExplorer
from mdpfn.exploration.rows import Rows
from mdpfn.model.choices import ROUNDING, Choices, Solution
from mdpfn.online.in_context import InContextLearner


@dataclass
class Life:
    """What an explorer did, and the processor seconds that its plans took."""

    actions: list[int] = field(default_factory=list)
    n_plans: int = 0
    planning_seconds: float = 0.0


def value_iteration(choices: Choices, start: Any, tolerance: float) -> Solution:
    """Values by sweeps from zero, until they are exact to rounding: as accurate as what it is compared with."""
    n = len(choices.first)
    indptr = np.append(choices.start, len(choices.following))
    p = csr_array((choices.probability, choices.following, indptr), shape=(len(choices.state), n + 1))
    value = np.zeros(n)
    while True:
        outside = value.mean() if choices.outside is None else choices.outside
        q = choices.gain + choices.weight * (p @ np.append(value, outside))
        best = np.maximum(np.maximum.reduceat(q, choices.first), choices.floor)
        change, value = np.abs(best - value).max(), best
        if change <= ROUNDING * (1 - choices.weight.max()) * (1 + np.abs(value).max()):
            return Solution(q, value)


@contextmanager
def observed_life(*, from_scratch: bool = False) -> Iterator[Life]:
    """Note what explorers do in here, planning from scratch or as shipped."""
    life, table, plan, action = Life(), Statistics.table, InContextLearner._plan_acting, EarningExplorer.action

    def timed_plan(self: InContextLearner) -> None:
        began = time.process_time()
        plan(self)
        life.planning_seconds += time.process_time() - began
        life.n_plans += 1

    def noted_action(self: EarningExplorer, *given: Any) -> int:
        life.actions.append(action(self, *given))
        return life.actions[-1]

    def table_from_counts(self: Statistics) -> PairTable:
        if self._table is None:
            self._base = None
        return table(self)

    def rows_from_table(z: PairTable, last: Rows | None) -> Rows:
        return Rows(z)

    with (
        mock.patch.object(InContextLearner, "_plan_acting", timed_plan),
        mock.patch.object(EarningExplorer, "action", noted_action),
    ):
        if not from_scratch:
            yield life
            return
        with (
            mock.patch.object(EarningExplorer, "solve", staticmethod(value_iteration)),
            mock.patch.object(Statistics, "table", table_from_counts),
            mock.patch.object(earning, "Rows", rows_from_table),
        ):
            yield life
