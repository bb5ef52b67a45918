"""Running a fixed policy in an environment: its returns and its transitions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.evidence import State, Transition
from mdpfn.online.env_adapters import adapter_of
from mdpfn.online.history import History
from mdpfn.online.loop import run_episodes
from mdpfn.spaces.encoding import SpaceEncoding


@dataclass
class FixedPolicy:
    """Acts by a function from states to actions, and records transitions and returns without learning."""

    choose: Callable[[State], int]
    history: History = field(default_factory=History)
    transitions: list[Transition] = field(default_factory=list)

    def act(self, state: State) -> int:
        """The action of the policy."""
        return self.choose(state)

    def record(self, transition: Transition, environment: int) -> None:
        """Keep a transition, and note how its episode goes."""
        self.transitions.append(transition)
        self.history.note(transition.state, transition.reward, bool(transition.ends_episode), environment)


def evaluate(
    choose: Callable[[State], int],
    env: Any,
    encoding: SpaceEncoding,
    episodes: int,
    *,
    seed: int | None = None,
    max_episode_steps: int | None = None,
) -> Floats:
    """(episodes,) undiscounted returns of a policy; states that were never seen have ids beyond the known ones."""
    actor = FixedPolicy(choose)
    envs = adapter_of(env, encoding, encoding.find, max_episode_steps)
    run_episodes(actor, envs, seed=seed, goes_on=lambda: len(actor.history.returns) < episodes)
    return np.array(actor.history.returns)
