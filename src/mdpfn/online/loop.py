"""The one episode loop: something that acts and observes, in one Gymnasium environment or many side by side."""

from collections.abc import Callable
from typing import Protocol

from mdpfn.evidence import State, Transition
from mdpfn.online.env_adapters import EnvAdapter


class Actor(Protocol):
    """What the loop drives. Actions are ids; states are ids or vectors."""

    def act(self, state: State) -> int:
        """The action to take in a state."""

    def record(self, transition: Transition, environment: int) -> None:
        """Record the transition that followed, in one of the environments."""


def run_episodes(actor: Actor, envs: EnvAdapter, *, seed: int | None, goes_on: Callable[[], bool]) -> None:
    """Run `actor` in `envs`, step by step, until `goes_on` returns False; it is called after every transition."""
    states = envs.reset(seed)
    while True:
        actions = [None if state is None else actor.act(state) for state in states]
        outcomes = envs.step(actions)
        for i, (state, action, outcome) in enumerate(zip(states, actions, outcomes, strict=True)):
            if state is None or action is None:
                continue
            reward, reached, terminated, truncated = outcome
            actor.record(Transition(state, action, reward, reached, terminated, truncated), i)
            if not goes_on():
                return
        states = envs.current_states()
