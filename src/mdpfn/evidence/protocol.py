"""The seam between observing and planning: transitions go in, a table of pairs comes out."""

from typing import Any, NamedTuple, Protocol, TypeAlias

from mdpfn.evidence.table import PairTable

State: TypeAlias = Any
"""What was observed: the id of a state, or a vector."""


class Transition(NamedTuple):
    """One step: what was observed, what was done, what came of it."""

    state: State
    action: int
    reward: float
    next_state: State
    terminated: bool = False
    truncated: bool = False

    @property
    def ends_episode(self) -> bool:
        """Whether the next step starts somewhere else."""
        return self.terminated or self.truncated


class Novelty(NamedTuple):
    """What was new about one transition."""

    n_visits: float  # of its pair, this one included
    new_successor: bool  # the pair was never seen to lead there
    new_scale: bool  # no reward so large was seen before

    @property
    def replan_trigger(self) -> bool:
        """Whether to plan again: a new successor, a new reward scale, or a power of two of visits."""
        doubled = self.n_visits.is_integer() and not int(self.n_visits) & (int(self.n_visits) - 1)
        return self.new_successor or self.new_scale or doubled


class Evidence(Protocol):
    """Everything observed of one problem, in whatever form, as the table that planners and network read.

    `Statistics` counts transitions between integer states, `SmoothedEvidence` smooths those of vectors. Any other class
    with this interface, whose table has (fractional) counts over states of its own, can take their place.
    """

    @property
    def n_states(self) -> int:
        """How many states the table has."""

    @property
    def n_actions(self) -> int:
        """How many actions every state has."""

    def add(self, transition: Transition) -> Novelty:
        """Take in one transition and say what was new about it."""

    def table(self) -> PairTable:
        """The visited pairs, as flat arrays: a batch of one."""
