"""The interface of learners on integer states: act, observe, plan."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.evidence import Novelty, Statistics, Transition
from mdpfn.planners.problem_info import ProblemInfo


class Learner(ABC):
    """Something that learns to act in one problem with integer states.

    It knows the sizes of the problem, its discount and perhaps its reward range; everything else it must observe.
    `evidence` holds what was observed before: a logged data set, an earlier run, or nothing. `settings` override
    attributes of the class.
    """

    def __init__(
        self, evidence: Statistics, info: ProblemInfo, rng: np.random.Generator, **settings: float | None
    ) -> None:
        self.evidence, self.info, self.rng = evidence, info, rng
        for name, value in settings.items():
            getattr(type(self), name)  # raises where there is no such setting
            setattr(self, name, value)

    @property
    def discount(self) -> float:
        """γ."""
        return float(self.info.discount[0])

    @property
    def reward_scale(self) -> float:
        """max |r|: of the range that is known, otherwise of the rewards observed (1 before any)."""
        return float(self.info.reward_scale(np.array([self.evidence.reward_scale]))[0])

    def any_action(self, state: int) -> int:
        """An action that exists in a state, drawn at random."""
        mask = self.evidence.mask(state)
        if mask is None:
            return int(self.rng.integers(self.evidence.n_actions))
        return int(self.rng.choice(np.flatnonzero(mask)))

    @abstractmethod
    def act(self, state: int) -> int:
        """The action to take now, exploring."""

    def observe(self, transition: Transition) -> Novelty:
        """Learn from one transition, and say what was new about it."""
        return self.evidence.add(transition)

    def before(self, transition: Transition) -> Any:
        """What `take_back` needs to undo a transition that is about to be observed."""
        return self.evidence.before(transition)

    def take_back(self, before: Any) -> None:
        """Undo a transition, even if it was learned only in part."""
        self.evidence.take_back(before)

    @abstractmethod
    def plan(self) -> Floats:
        """(S, A) the policy to exploit with, given what was observed so far."""
