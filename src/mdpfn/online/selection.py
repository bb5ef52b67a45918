"""Keeping the plan that lived well: a new plan replaces it only where more is to be gained than the model errs.

An episode lived under a plan is judged by lived minus planned value, G − V(x₀), with V of the newest plan: starts that
are harder are expected to pay less. G = Σ γᵗ r, plus γᵀ V(x_T) where the episode was cut off.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.evidence.smoothed.config import SmootherConfig
from mdpfn.online.lookahead import VectorPlan


@dataclass(eq=False)
class Lived:
    """A plan and the episodes that were lived under it, to their ends."""

    plan: VectorPlan
    n_data: int  # transitions that were known when it was made
    starts: list[Floats] = field(default_factory=list)
    ends: list[Floats] = field(default_factory=list)  # last observations
    returns: list[float] = field(default_factory=list)  # discounted
    tails: list[float] = field(default_factory=list)  # γᵀ where cut off, else 0

    def note(self, start: Floats, end: Floats, discounted: float, tail: float, n_judged: int) -> None:
        """One more episode; only the last ones are judged."""
        self.starts, self.ends = [*self.starts, start][-n_judged:], [*self.ends, end][-n_judged:]
        self.returns, self.tails = [*self.returns, discounted][-n_judged:], [*self.tails, tail][-n_judged:]

    def advantage(self, judge: VectorPlan) -> float:
        """Mean of lived minus planned value over the last episodes, judged by the values of `judge`."""
        start, end = (judge.state_value(np.array(observed)) for observed in (self.starts, self.ends))
        return float(np.mean(np.array(self.returns) + np.array(self.tails) * end - start))


class Selection:
    """The incumbent, which lived best, and the newest plan, which knows most: which of the two acts."""

    def __init__(self, config: SmootherConfig) -> None:
        self.config = config
        self.newest: Lived | None = None
        self.incumbent: Lived | None = None
        self.failed = False  # the plan that lived last lived worse than the incumbent
        self.challenged_at = 0  # data of the last plan that challenged the incumbent in vain
        self.confirmed = False  # the incumbent lives as well as the newest plan believes possible

    def propose(self, plan: VectorPlan, n_data: int) -> None:
        """A new plan was made from n_data transitions."""
        self.newest = Lived(plan, n_data)
        self._judge()

    def acting(self, *, learning: bool) -> Lived | None:
        """The plan to act with, None before the first.

        A confirmed incumbent is challenged only when data has doubled since it was made (or last challenged in vain),
        and where it counts only if it lived a single episode. Otherwise the newest acts; but where it counts, not
        after it lived worse than an incumbent of two episodes or more.
        """
        newest, incumbent = self.newest, self.incumbent
        if incumbent is None or newest is None:
            return newest
        if self.confirmed:
            ripe = newest.n_data >= 2 * max(incumbent.n_data, self.challenged_at)
            return newest if ripe and (learning or len(incumbent.returns) < 2) else incumbent
        return incumbent if self.failed and not learning and len(incumbent.returns) > 1 else newest

    def lived(self, who: Lived, start: Floats, end: Floats, discounted: float, tail: float) -> None:
        """An episode came to its end under `who`; tail is γᵀ where it was cut off, else 0."""
        assert self.newest is not None
        who.note(start, end, discounted, tail, self.config.n_judged)
        if who.plan.is_lost:
            return
        judge, tolerance = self.newest.plan, self._tolerance(self.newest)
        if self.incumbent is None or self.incumbent is who:
            self.incumbent, self.failed = who, False
        else:
            mine, best = who.advantage(judge), self.incumbent.advantage(judge)
            self.failed = mine < best - tolerance
            if self.failed:
                self.challenged_at = who.n_data
            elif len(self.incumbent.returns) < 2 or mine > best + tolerance:
                self.incumbent = who  # better than the model errs; or as good, knowing more, and little is lived yet
        self._judge()

    def _tolerance(self, newest: Lived) -> float:
        return self.config.tolerance_lived * newest.plan.value_range

    def _judge(self) -> None:
        if self.incumbent is not None and self.newest is not None:
            advantage = self.incumbent.advantage(self.newest.plan)
            self.confirmed = advantage > -self._tolerance(self.newest)
