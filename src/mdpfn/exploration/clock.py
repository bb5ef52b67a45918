"""Where in its life an agent is, as far as exploration depends on it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    """Episodes and steps so far."""

    episode: int = 0  # finished ones
    step: int = 0  # of the episode under way
    steps_since_plan: int = 0
    replan_trigger: bool = False  # whether anything was new since the last plan

    def advance(self, *, ends_episode: bool, replan_trigger: bool) -> None:
        """One step more."""
        self.steps_since_plan += 1
        self.replan_trigger = self.replan_trigger or replan_trigger
        self.episode, self.step = (self.episode + 1, 0) if ends_episode else (self.episode, self.step + 1)

    def planned(self) -> None:
        """A plan was made just now."""
        self.steps_since_plan, self.replan_trigger = 0, False
