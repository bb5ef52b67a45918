"""What is said of the worth of policies: numbers with draws, intervals, and the pairs that they hang on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.errors import MdpfnError, shown
from mdpfn.worth.importance import ImportanceCheck


class Risk(NamedTuple):
    """A pair, and the share of the variance of a value that comes from not knowing better what it does."""

    state: Any
    action: Any
    share: float
    n_visits: float

    def __str__(self) -> str:
        return f"{self.action} in {self.state} ({self.share:.0%}, tried {self.n_visits:g} times)"

    def __repr__(self) -> str:
        return f"Risk({self})"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**self._asdict(), "state": str(self.state), "action": str(self.action)}


class _Drawn:
    """A number of which there are draws. With little data their tails are so heavy that they have no mean."""

    mean: float
    draws: Floats

    def interval(self, level: float = 0.9) -> tuple[float, float]:
        """Between which numbers it lies with this probability."""
        if not 0 < level < 1:
            raise MdpfnError("level", shown(level), "it must lie in (0, 1)", "use a value such as 0.9")
        low, high = np.quantile(self.draws, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    def __float__(self) -> float:
        return self.mean

    def __str__(self) -> str:
        low, high = self.interval()
        return f"{self.mean:.4g}, with 90 % in {low:.4g} … {high:.4g}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"mean": self.mean, "interval_90": list(self.interval())}


@dataclass(frozen=True, eq=False, repr=False)
class PolicyValue(_Drawn):
    """The discounted value of a policy, averaged over the starts of episodes."""

    mean: float
    draws: Floats  # (draws,)
    by_state: Floats  # (S,) expected value from each state on
    effective_sample_size: float  # how many transitions that tell of this policy the log is worth
    risks: tuple[Risk, ...]  # what the uncertainty comes from, largest first
    check: ImportanceCheck | None = None  # by importance weights, where episodes were given

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return super().to_dict() | {
            "effective_sample_size": self.effective_sample_size,
            "risks": [risk.to_dict() for risk in self.risks],
        }


@dataclass(frozen=True, eq=False, repr=False)
class Improvement(_Drawn):
    """V(new) − V(logged): how much better a policy is than what was done so far."""

    mean: float
    draws: Floats  # (draws,)
    new: PolicyValue
    logged: PolicyValue
    risks: tuple[Risk, ...]

    @property
    def probability(self) -> float:
        """The probability that the new policy is better."""
        return float((self.draws > 0).mean() + (self.draws == 0).mean() / 2)

    @property
    def how_probable(self) -> str:
        """The probability that the new policy is better, in words: draws cannot tell what is certain."""
        p = self.probability
        return "more than 99 %" if p > 0.99 else "less than 1 %" if p < 0.01 else f"{100 * p:.0f} %"

    def __str__(self) -> str:
        return f"{super().__str__()}; better with {self.how_probable} probability"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return super().to_dict() | {
            "probability": self.probability,
            "new": self.new.to_dict(),
            "logged": self.logged.to_dict(),
            "risks": [risk.to_dict() for risk in self.risks],
        }


@dataclass(frozen=True, eq=False, repr=False)
class Regret(_Drawn):
    """V* − V(π): how much is still to be gained over a policy, by whoever knew the problem."""

    mean: float
    draws: Floats  # (draws,) ≥ 0
