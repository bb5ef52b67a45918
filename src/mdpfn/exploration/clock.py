"""Where in its life an agent is, as far as exploration depends on it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    """Episodes and steps so far."""

    episode: int = 0  # finished ones
    budget: int | None = None  # how many there will be in all; None if nobody knows
    step: int = 0  # of the episode under way
    steps_since_plan: int = 0
    replan_trigger: bool = False  # whether anything was new since the last plan
    last_action: int = 0

    @property
    def share_left(self) -> float:
        """Which part of the budget is still to come; half of it where nobody knows."""
        return 0.5 if self.budget is None else max(self.budget - self.episode, 0) / self.budget

    @property
    def is_last_episode(self) -> bool:
        """Whether nothing that is learned now can be used later."""
        return self.budget is not None and self.episode >= self.budget - 1

    def advance(self, action: int, *, ends_episode: bool, replan_trigger: bool) -> None:
        """One step more."""
        self.last_action = action
        self.steps_since_plan += 1
        self.replan_trigger = self.replan_trigger or replan_trigger
        self.episode, self.step = (self.episode + 1, 0) if ends_episode else (self.episode, self.step + 1)

    def planned(self) -> None:
        """A plan was made just now."""
        self.steps_since_plan, self.replan_trigger = 0, False
