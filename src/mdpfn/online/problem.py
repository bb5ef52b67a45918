"""One problem that something learns: what its states and actions are called, who learns, how episodes went."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from mdpfn.checks import checked_action_mask, whole_number
from mdpfn.errors import MdpfnError
from mdpfn.evidence import State, Statistics, Transition
from mdpfn.evidence.statistics import checked_reward
from mdpfn.online.history import History
from mdpfn.online.learner import Learner
from mdpfn.online.loop import run_episodes
from mdpfn.online.options import Options
from mdpfn.online.vector_learner import VectorLearner
from mdpfn.online.worlds import worlds_of
from mdpfn.spaces.encoding import SpaceEncoding
from mdpfn.weights.limits import Limits

L = TypeVar("L", bound=Learner | VectorLearner)
OnEpisode: TypeAlias = Callable[[History], bool | None]
"""Called after every episode; the run ends if it returns False."""


@dataclass
class Problem(Generic[L]):
    """The encoding of states and actions, the learner that sees only their ids, and what happened so far."""

    encoding: SpaceEncoding
    learner: L
    options: Options
    limits: Limits
    history: History = field(default_factory=History)
    starts_known: bool = True  # whether the order of the data tells where episodes started
    columns: Mapping[str, str] | None = None  # of the data that was read

    def state_id(self, observation: Any, action_mask: Any = None) -> State:
        """The id of an observation; a new one gets the next id. Actions that a mask does not allow are never taken."""
        if action_mask is None:
            state = self.encoding.find(observation)
            if state < self.encoding.states.n and state < self.learner.evidence.n_states:
                return state
        mask = self.check(observation, action_mask)
        evidence = self.learner.evidence
        assert isinstance(evidence, Statistics)
        state = self.encoding.states.encode(observation)
        evidence.make_room(state + 1)
        if mask is not None:
            evidence.allow(state, mask)
        return state

    def check(self, observation: Any, action_mask: Any = None) -> tuple[bool, ...] | None:
        """The mask in plain truth values; what cannot be taken in is refused before anything is changed."""
        evidence = self.learner.evidence
        mask = None if action_mask is None else checked_action_mask(action_mask, evidence.n_actions)
        if self.encoding.find(observation) >= evidence.n_states:
            self.limits.check_sizes(evidence.n_states + 1, evidence.n_actions)
        return mask

    def act(self, state: State) -> int:
        """The learner's action, exploring; another one where it chose before a mask forbade that."""
        learner, action = self.learner, self.learner.act(state)
        assert isinstance(learner, Learner)
        mask = learner.evidence.mask(state)
        return action if mask is None or mask[action] else learner.any_action(state)

    def record(self, transition: Transition, environment: int = 0) -> None:
        """Let the learner observe one transition, and remember how the episode goes."""
        reward = self.checked_reward(transition.reward, transition.terminated, transition.truncated)
        transition = transition._replace(reward=reward)
        self.learner.observe(transition)
        self.history.note(transition.state, reward, bool(transition.ends_episode), environment)

    def checked_reward(self, reward: Any, terminated: Any, truncated: Any) -> float:
        """The reward as a plain number, after what is said about the end of the episode was checked as well."""
        for field_name, flag in (("terminated", terminated), ("truncated", truncated)):
            if flag is not True and flag is not False and not isinstance(flag, np.bool_):
                raise MdpfnError(field_name, repr(flag), "it must be True or False", "say how the episode ended")
        if isinstance(reward, np.ndarray) and reward.ndim == 0:  # some environments return them
            reward = reward.item()
        plain = checked_reward(reward)
        if self.options.reward_range is not None:
            self.options.check_rewards(plain)
        return plain

    def run(
        self,
        env: Any,
        episodes: int,
        *,
        seed: int | None,
        max_episode_steps: int | None = None,
        on_episode: OnEpisode | None = None,
    ) -> None:
        """Let the learner live through this many more episodes of `env`.

        An episode that reaches `max_episode_steps` is truncated. In a vector environment the first `episodes` to
        finish count, and what was observed of the others is kept too.
        """
        worlds = worlds_of(env, self.encoding, self.state_id, max_episode_steps)
        history = self.history
        history.under_way.clear()
        target, finished = len(history.returns) + episodes, len(history.returns)
        started = time.perf_counter() - history.seconds

        def goes_on() -> bool:
            nonlocal finished
            if len(history.returns) == finished:
                return True
            finished = len(history.returns)
            history.seconds = time.perf_counter() - started
            stops = on_episode is not None and on_episode(history) is False
            return finished < target and not stops

        try:
            run_episodes(self, worlds, seed=seed, goes_on=goes_on)
        finally:
            history.seconds = time.perf_counter() - started


def agent_rng(seed: int | None) -> np.random.Generator:
    """The generator of an agent: environments seed theirs with the bare seed, and the two must not go in step."""
    return np.random.default_rng(None if seed is None else [whole_number("seed", seed, low=0), 1])
