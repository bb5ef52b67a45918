"""What every agent is: something that acts in an MDP it cannot see, and learns from what happens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.statistics import Statistics


class Transition(NamedTuple):
    """One step: what was observed, what was done, what came of it."""

    state: int
    action: int
    reward: float
    next_state: int
    terminated: bool = False
    truncated: bool = False

    @property
    def ends_episode(self) -> bool:
        """Whether the next step starts somewhere else."""
        return self.terminated or self.truncated


class Agent(ABC):
    """Knows the sizes of the problem and the discount; everything else it must observe.

    `statistics` is what was observed before, if anything was: a logged data set, or an earlier run.
    """

    def __init__(
        self,
        n_states: int,
        n_actions: int,
        *,
        discount: float,
        rng: np.random.Generator,
        statistics: Statistics | None = None,
    ) -> None:
        self.n_states, self.n_actions, self.discount, self.rng = n_states, n_actions, discount, rng
        self.statistics = Statistics(n_states, n_actions) if statistics is None else statistics

    @abstractmethod
    def act(self, state: int) -> int:
        """The action to take now, exploring."""

    def observe(self, transition: Transition) -> None:
        """Learn from one transition."""
        self.statistics.update(*transition[:5])

    @abstractmethod
    def plan(self) -> Floats:
        """(S, A) the policy to exploit with, given what was observed so far."""
