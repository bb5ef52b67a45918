"""The explorer's plans solved from scratch, as an oracle: table and model from all counts, value iteration from zero.

The model is the library's general one, `EmpiricalModel`. Nothing is kept from plan to plan but what the rule itself
carries, so actions must be the same, and only time differs.
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

from mdpfn.arrays import Floats, Ints
from mdpfn.evidence import PairTable, Statistics
from mdpfn.exploration import earning
from mdpfn.exploration.earning import EarningExplorer
from mdpfn.exploration.rows import Rows
from mdpfn.model.choices import ROUNDING, Choices, Solution
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.online.in_context import InContextLearner


@dataclass
class Life:
    """What an explorer did, and the processor seconds that its plans took."""

    actions: list[int] = field(default_factory=list)
    n_plans: int = 0
    planning_seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class ModelChoices(Choices):
    """The same choices with P̂ of the general model, over its tokens: known states, terminal ones, all others."""

    transition: csr_array  # (choices, tokens)
    token: Ints  # (n,) of each known state


@dataclass(frozen=True, eq=False)
class ModelRows(Rows):
    """Rows that nothing is kept of, and whose P̂ is that of the general model."""

    model: EmpiricalModel

    @classmethod
    def of(cls, z: PairTable, last: Rows | None = None) -> ModelRows:
        """Rows of a table."""
        return cls(**vars(Rows.of(z)), model=EmpiricalModel.of(z))

    def choices(self, *numbers: Any, **named: Any) -> ModelChoices:
        """What may be chosen in every known state."""
        choices, model = super().choices(*numbers, **named), self.model
        goes_on = np.flatnonzero(model.goes_on)
        token = model.layout.visited_state[goes_on]
        return ModelChoices(**vars(choices), transition=model.transition[goes_on], token=token[choices.first])


def value_iteration(choices: ModelChoices, start: Floats, tolerance: float) -> Solution:
    """Values by sweeps from zero, until they are exact to rounding: as accurate as what it is compared with."""
    value, tokens = np.zeros(len(choices.first)), np.zeros(choices.transition.shape[1])
    while True:
        tokens[choices.token] = value
        tokens[-1] = value.mean() if choices.outside is None else choices.outside
        q = choices.gain + choices.weight * (choices.transition @ tokens)
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

    with (
        mock.patch.object(InContextLearner, "_plan_acting", timed_plan),
        mock.patch.object(EarningExplorer, "action", noted_action),
    ):
        if not from_scratch:
            yield life
            return
        with (
            mock.patch.object(earning, "solve", value_iteration),
            mock.patch.object(Statistics, "table", table_from_counts),
            mock.patch.object(earning, "Rows", ModelRows),
        ):
            yield life
