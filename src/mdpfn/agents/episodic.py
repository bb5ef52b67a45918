"""Agents that fix a deterministic policy at the start of an episode and hold it until its end."""

from __future__ import annotations

from abc import abstractmethod

from mdpfn.agents.base import Agent, Transition
from mdpfn.arrays import Ints


class EpisodicAgent(Agent):
    """Chooses its policy anew when the last transition ended an episode."""

    _actions: list[int] | None = None

    @abstractmethod
    def choose_actions(self) -> Ints:
        """(S,) the action to take in each state during the episode that starts now."""

    def act(self, state: int) -> int:
        """The action of this episode's policy."""
        if self._actions is None:
            actions: list[int] = self.choose_actions().tolist()
            self._actions = actions
        return self._actions[state]

    def observe(self, transition: Transition) -> None:
        """Learn from one transition; the end of an episode ends its policy."""
        super().observe(transition)
        if transition.ends_episode:
            self._actions = None
