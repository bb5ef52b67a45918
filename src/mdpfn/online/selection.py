"""Keeping the plan that lived well: a new plan replaces it only where more is to be gained than the model errs.

An episode lived under a plan is judged by lived minus planned value, G_t − V(x_t), with V of the newest plan: where it
is harder, less is expected. G_t = Σ_s≥t γ^(s−t) r_s, plus γ^(T−t) V(x_T) where the episode was cut off. It is judged at
some moments t from its beginning to its end, not at the beginning alone: seen from there, a fall after 300 steps is
discounted away.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.evidence.smoothed.config import SmootherConfig
from mdpfn.online.lookahead import VectorPlan
from mdpfn.online.underway import Underway

MOMENTS = 8  # of an episode, at which it is judged


@dataclass(eq=False)
class Lived:
    """A plan and the episodes that were lived under it, to their ends, as `MOMENTS` rows each."""

    plan: VectorPlan
    n_data: int  # transitions that were known when it was made
    starts: list[Floats] = field(default_factory=list)
    ends: list[Floats] = field(default_factory=list)  # last observations
    returns: list[float] = field(default_factory=list)  # discounted
    tails: list[float] = field(default_factory=list)  # γ^(T−t) where cut off, else 0

    def note(self, episode: Underway, *, cut_off: bool, n_judged: int) -> None:
        """One more episode; only the last ones are judged."""
        most = n_judged * MOMENTS
        for i in np.linspace(0, len(episode.returns) - 1, MOMENTS).astype(int):
            self.starts.append(episode.moments[i])
            self.ends.append(episode.last)
            self.returns.append(float(episode.returns[i]))
            self.tails.append(float(episode.fades[i]) if cut_off else 0.0)
        for rows in (self.starts, self.ends, self.returns, self.tails):
            del rows[:-most]

    def follow(self, other: Lived, n_judged: int) -> None:
        """Take over the record of a plan whose place it takes: both are judged by the last episodes of either."""
        for name in ("starts", "ends", "returns", "tails"):
            setattr(self, name, (getattr(other, name) + getattr(self, name))[-n_judged * MOMENTS :])

    def advantage(self, judge: VectorPlan) -> float:
        """Mean of lived minus planned value over the last episodes, judged by the values of `judge`."""
        return self.value(judge) - float(np.mean(judge.state_value(np.array(self.starts))))

    def value(self, judge: VectorPlan) -> float:
        """Mean of lived value over the last episodes; `judge` says what follows where they were cut off."""
        after = judge.state_value(np.array(self.ends))
        return float(np.mean(np.array(self.returns) + np.array(self.tails) * after))


class Selection:
    """The incumbent, which lived best, and the newest plan, which knows most: which of the two acts."""

    def __init__(self, config: SmootherConfig) -> None:
        self.config = config
        self.newest: Lived | None = None
        self.incumbent: Lived | None = None
        self.confirmed = False  # the incumbent lives as well as the newest plan believes possible,
        self.perfect = False  # and, proven, as well as anything could: every step pays the most that was ever paid

    def propose(self, plan: VectorPlan, n_data: int) -> None:
        """A new plan was made from n_data transitions."""
        self.newest = Lived(plan, n_data)
        self._judge()

    @property
    def trusted(self) -> Lived | None:
        """The plan to exploit by, None before the first.

        A proven incumbent, or a confirmed one when the newest was tried and is not better. Otherwise the newest: it
        knows more, and one episode that went well may have begun in a lucky place.
        """
        tried = self.newest is not None and bool(self.newest.returns)
        return self.incumbent if self.proven or (self.confirmed and tried) else self.newest

    @property
    def proven(self) -> bool:
        """Whether the incumbent lives as well as is believed possible, judged by as many episodes as it takes."""
        incumbent = self.incumbent
        return self.confirmed and incumbent is not None and len(incumbent.returns) >= self.config.n_judged * MOMENTS

    @property
    def acting(self) -> Lived | None:
        """The plan to learn by: a confirmed incumbent, but one that knows more is lived by for an episode."""
        return self.incumbent if self.confirmed and not self._is_challenged else self.newest

    @property
    def _is_challenged(self) -> bool:
        """Whether the newest plan knows more than the incumbent, may be better, and was not tried yet."""
        newest, incumbent = self.newest, self.incumbent
        if newest is None or incumbent is None or newest.returns or self.perfect:
            return False
        return newest.n_data >= self.config.challenge * incumbent.n_data

    def lived(self, who: Lived, episode: Underway, *, cut_off: bool) -> None:
        """An episode came to its end under `who`, or was cut off."""
        assert self.newest is not None
        who.note(episode, cut_off=cut_off, n_judged=self.config.n_judged)
        if who.plan.is_lost:
            return
        judge, tolerance = self.newest.plan, self._tolerance(self.newest)
        if self.incumbent is None or self.incumbent is who:
            self.incumbent = who
        else:
            gain = who.advantage(judge) - self.incumbent.advantage(judge)
            knows_more = who.n_data >= self.config.challenge * self.incumbent.n_data
            shortfall = self.config.tolerance_tried * judge.value_range
            if gain > tolerance:  # better than the model errs
                self.incumbent = who
            elif knows_more and gain >= -shortfall:  # one episode tells little
                if self.confirmed:
                    who.follow(self.incumbent, self.config.n_judged)
                self.incumbent = who
        self._judge()

    def _tolerance(self, newest: Lived) -> float:
        return self.config.tolerance_lived * newest.plan.value_range

    def _judge(self) -> None:
        if self.incumbent is not None and self.newest is not None:
            judge, tolerance = self.newest.plan, self._tolerance(self.newest)
            self.confirmed = self.incumbent.advantage(judge) > -tolerance
            self.perfect = self.proven and self.incumbent.value(judge) > judge.bound - tolerance
