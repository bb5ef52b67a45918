"""Agents that learn from logged data: they do not explore, but act as they would exploit."""

from __future__ import annotations

from mdpfn.agents.base import Agent, Transition
from mdpfn.agents.policies import ActionSampler


class OfflineAgent(Agent):
    """Acts by `plan()`, which is made anew once something new was observed."""

    _acting: ActionSampler | None = None

    def act(self, state: int) -> int:
        """An action of the policy to exploit with."""
        if self._acting is None:
            self._acting = ActionSampler(self.plan(), self.rng)
        return self._acting(state)

    def observe(self, transition: Transition) -> None:
        """Learn from one transition."""
        super().observe(transition)
        self._acting = None
