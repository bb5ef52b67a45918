"""One problem an agent is in: what its states and actions are called, what was observed, how episodes went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Generic, TypeVar

import numpy as np

from mdpfn.agents.base import Agent as Learner
from mdpfn.agents.base import Transition
from mdpfn.agents.reward_range import RewardRange
from mdpfn.errors import MdpfnError
from mdpfn.interface.codec import Codec
from mdpfn.interface.history import History
from mdpfn.interface.limits import Limits
from mdpfn.interface.plan import Plan

L = TypeVar("L", bound=Learner)


@dataclass(frozen=True)
class Options:
    """What the user may say about a problem."""

    discount: float = 0.95
    reward_range: RewardRange | None = None  # the smallest and largest reward there can be; None: as observed
    replan_every: int | None = None  # steps; None: as its way to explore asks for
    risk: float | None = None  # the quantile of Q* to exploit by; None: the policy

    def __post_init__(self) -> None:
        if not isinstance(self.discount, Real) or not 0 <= self.discount < 1:
            raise MdpfnError("discount", repr(self.discount), "it must lie in [0, 1)", "use a value such as 0.95")
        if self.reward_range is not None and not _is_range(self.reward_range):
            limit = "it must be (low, high), both finite, low ≤ high and not both 0"
            raise MdpfnError("reward_range", repr(self.reward_range), limit, "leave it out if it is not known")
        if self.replan_every is not None and not (isinstance(self.replan_every, Integral) and self.replan_every >= 1):
            limit = "it must be a number of steps, at least 1"
            raise MdpfnError("replan_every", repr(self.replan_every), limit, "leave it out to plan once per episode")
        if self.risk is not None and not (isinstance(self.risk, Real) and 0 < self.risk < 1):
            limit = "it must be a level in (0, 1), low to avoid risk"
            raise MdpfnError("risk", repr(self.risk), limit, "leave it out for the policy of the network")
        self._make_plain()

    def _make_plain(self) -> None:
        """Python's own numbers instead of NumPy's, which cannot be compared and saved as well."""
        plain = {
            "discount": float(self.discount),
            "reward_range": None if self.reward_range is None else tuple(map(float, self.reward_range)),
            "replan_every": None if self.replan_every is None else int(self.replan_every),
            "risk": None if self.risk is None else float(self.risk),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    def check_rewards(self, *rewards: float) -> None:
        """Refuse rewards outside the range that the user vouched for."""
        low, high = self.reward_range or (-np.inf, np.inf)
        for reward in rewards:
            if isinstance(reward, Real) and not low <= reward <= high:
                limit = f"reward_range allows {low} to {high}"
                raise MdpfnError("reward", repr(reward), limit, "give a range that holds every reward, or none")


def _is_range(value: Any) -> bool:
    try:
        low, high = value
        return bool(-np.inf < low <= high < np.inf and (low, high) != (0, 0))
    except (TypeError, ValueError):
        return False


@dataclass(frozen=True, eq=False)
class Names:
    """What states and actions are called, in the environment or in the data."""

    observation_space: Any
    action_space: Any
    states: Codec
    actions: Codec


@dataclass
class Context(Generic[L]):
    """The names of states and actions, the learner that sees only their ids, and what happened so far."""

    names: Names
    learner: L
    options: Options
    limits: Limits
    history: History = field(default_factory=History)
    starts_known: bool = True  # whether the order of the data tells where episodes started
    columns: Mapping[str, str] | None = None  # of the data that was read
    plan: Plan | None = None  # the latest

    def state_id(self, observation: Any) -> int:
        """The id of an observation; a new one gets the next id."""
        state = self.names.states.encode(observation)
        statistics = self.learner.statistics
        if state >= statistics.n_states:
            self.limits.check_sizes(state + 1, statistics.n_actions)
            statistics.make_room(state + 1)
        return state

    def record(self, transition: Transition, environment: int = 0) -> None:
        """Let the learner observe one transition, and remember how the episode goes."""
        if isinstance(transition.reward, np.ndarray) and transition.reward.ndim == 0:  # some environments return them
            transition = transition._replace(reward=transition.reward.item())
        state, _, reward, _, terminated, truncated = transition
        for field_name, flag in (("terminated", terminated), ("truncated", truncated)):
            if flag is not True and flag is not False and not isinstance(flag, np.bool_):
                raise MdpfnError(field_name, repr(flag), "it must be True or False", "say how the episode ended")
        if self.options.reward_range is not None:
            self.options.check_rewards(reward)
        self.learner.observe(transition)
        self.history.note(state, reward, terminated or truncated, environment)
