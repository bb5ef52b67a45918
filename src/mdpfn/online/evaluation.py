"""Running a fixed policy in an environment: its returns."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdpfn.arrays import Bools, Floats
from mdpfn.checks import checked_action_mask
from mdpfn.evidence import State, Transition
from mdpfn.online.env_adapters import adapter_of
from mdpfn.online.history import History
from mdpfn.online.loop import run_episodes
from mdpfn.online.masks import RecentMasks
from mdpfn.spaces.encoding import SpaceEncoding


@dataclass
class FixedPolicy:
    """Acts by a function from states to actions, and notes returns without learning."""

    choose: Callable[[State], int]
    history: History = field(default_factory=History)

    def act(self, state: State) -> int:
        """The action of the policy."""
        return self.choose(state)

    def record(self, transition: Transition, environment: int) -> None:
        """Note how the episode of a transition goes."""
        self.history.note(transition.state, transition.reward, bool(transition.ends_episode), environment)


def evaluate(
    choose: Callable[[State, Bools | None], int],
    env: Any,
    encoding: SpaceEncoding,
    episodes: int,
    *,
    seed: int | None = None,
    max_episode_steps: int | None = None,
) -> Floats:
    """(episodes,) undiscounted returns of a policy, a function of states and of masks (A,) where actions do not exist.

    States that were never seen have ids beyond the known ones.
    """
    masks = RecentMasks()

    def noted(observation: Any, action_mask: Any = None) -> State:
        state = encoding.find(observation)
        if action_mask is not None:
            masks.note(state, checked_action_mask(action_mask, encoding.actions.n))
        return state

    def act(state: State) -> int:
        mask = masks.of(state)
        return choose(state, None if mask is None else np.array(mask))

    actor = FixedPolicy(act)
    envs = adapter_of(env, encoding, noted, max_episode_steps)
    run_episodes(actor, envs, seed=seed, goes_on=lambda: len(actor.history.returns) < episodes)
    return np.array(actor.history.returns)
