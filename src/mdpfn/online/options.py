"""The options of a problem, as users give them and as they are checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias, TypedDict, get_args

import numpy as np

from mdpfn.checks import check_choice, check_flag
from mdpfn.errors import MdpfnError, shown
from mdpfn.exploration.earning import Objective
from mdpfn.planners.problem_info import DEFAULT_DISCOUNT, ProblemInfo, RewardRange
from mdpfn.spaces.features import Features

AtLeast: TypeAlias = Literal["logged"]
"""A policy that the recommended one must not fall behind."""


class OptionFields(TypedDict, total=False):
    """The options of `Agent.reset`, `solve` and `fit`; None counts as left out."""

    discount: float | None
    reward_range: RewardRange | None
    replan_every: int | None
    risk: float | None
    objective: Objective | None
    explore: bool | None
    features: Features | None
    at_least: AtLeast | None
    confidence: float | None


@dataclass(frozen=True)
class Options:
    """Options of a problem, checked when they are made; NumPy numbers become Python numbers."""

    discount: float = DEFAULT_DISCOUNT
    reward_range: RewardRange | None = None  # the smallest and largest reward there can be; None: as observed
    replan_every: int | None = None  # steps; None: as its way to explore asks for
    risk: float | None = None  # the quantile of Q* to exploit by; None: the policy
    objective: Objective = "return"  # what counts: what is earned, or only the policy at the end
    explore: bool = True
    at_least: AtLeast | None = None  # what the policy must be as good as …
    confidence: float = 0.95  # … with this probability

    def __post_init__(self) -> None:
        if not isinstance(self.discount, Real) or not 0 <= self.discount < 1:
            raise MdpfnError("discount", shown(self.discount), "it must lie in [0, 1)", "use a value such as 0.95")
        if self.reward_range is not None and not _is_range(self.reward_range):
            limit = "it must be (low, high), both finite, low ≤ high and not both 0"
            raise MdpfnError("reward_range", shown(self.reward_range), limit, "leave it out if it is not known")
        if self.replan_every is not None and not (isinstance(self.replan_every, Integral) and self.replan_every >= 1):
            limit = "it must be a number of steps, at least 1"
            raise MdpfnError("replan_every", shown(self.replan_every), limit, "leave it out to plan when there is news")
        if self.risk is not None and not (isinstance(self.risk, Real) and 0 < self.risk < 1):
            limit = "it must be a level in (0, 1), low to avoid risk"
            raise MdpfnError("risk", shown(self.risk), limit, "leave it out for the policy of the network")
        check_choice("objective", self.objective, get_args(Objective), "leave it out to earn while learning")
        check_flag("explore", self.explore, "use False to exploit only")
        if self.at_least is not None:
            check_choice("at_least", self.at_least, get_args(AtLeast), "leave it out for the best policy")
        if not isinstance(self.confidence, Real) or not 0.5 <= self.confidence < 1:
            limit = "it must be a probability in [0.5, 1)"
            raise MdpfnError("confidence", shown(self.confidence), limit, "use a value such as 0.95")
        plain = {
            "confidence": float(self.confidence),
            "explore": bool(self.explore),
            "discount": float(self.discount),
            "reward_range": None if self.reward_range is None else tuple(map(float, self.reward_range)),
            "replan_every": None if self.replan_every is None else int(self.replan_every),
            "risk": None if self.risk is None else float(self.risk),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, given: Mapping[str, Any], *, discount: float = DEFAULT_DISCOUNT) -> Options:
        """Options by name, where None counts as left out; `discount` is the default one."""
        for name in given:
            if name not in cls.__dataclass_fields__:
                limit = f"the options are {', '.join(sorted(OptionFields.__annotations__))}"
                raise MdpfnError("the option", shown(name), limit, "check its name")
        return cls(**({"discount": discount} | {name: value for name, value in given.items() if value is not None}))

    @property
    def info(self) -> ProblemInfo:
        """What is known of the problem before the first step."""
        return ProblemInfo.of(self.discount, self.reward_range)

    def check_rewards(self, *rewards: float) -> None:
        """Refuse rewards outside the range that the user vouched for."""
        low, high = self.reward_range or (-np.inf, np.inf)
        for reward in rewards:
            if isinstance(reward, Real) and not low <= reward <= high:
                limit = f"reward_range allows {low} to {high}"
                raise MdpfnError("reward", shown(reward), limit, "give a range that holds every reward, or none")


def _is_range(value: Any) -> bool:
    try:
        low, high = value
        return bool(-np.inf < low <= high < np.inf and (low, high) != (0, 0))
    except (TypeError, ValueError):
        return False
