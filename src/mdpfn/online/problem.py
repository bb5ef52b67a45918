"""One problem: the encoding of its states and actions, the learner, and the history of its episodes."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import get_ident
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from mdpfn.checks import check_flag, checked_action_mask, whole_number
from mdpfn.errors import MdpfnError
from mdpfn.evidence import State, Statistics, Transition
from mdpfn.evidence.counts import checked_reward
from mdpfn.online.env_adapters import adapter_of
from mdpfn.online.history import History
from mdpfn.online.in_context import InContextLearner
from mdpfn.online.learner import Learner
from mdpfn.online.loop import run_episodes
from mdpfn.online.options import Options
from mdpfn.online.snapshot import Snapshot
from mdpfn.online.vector_learner import VectorLearner
from mdpfn.spaces.codec import LabelCodec
from mdpfn.spaces.encoding import SpaceEncoding
from mdpfn.weights.limits import Limits

LONGEST_WAIT, SHORT_WAIT = 10.0, 0.001  # seconds: for the call of another thread in all, and between two looks
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
    columns: Mapping[str, str | list[str]] | None = None  # of the data that was read
    notes: Mapping[str, int] = field(default_factory=dict)  # what was left out of it -> in how many rows
    owner: int = 0  # the thread whose call is changing something
    runner: int = 0  # the thread that is running episodes
    _namings: list[Callable[[], None]] = field(default_factory=list)  # undo the ids that the current call gave

    @property
    def features(self) -> Any:
        """The features of states that the user gave, if any."""
        completion = self.learner.completion if isinstance(self.learner, InContextLearner) else None
        return None if completion is None else completion.factors.features

    def state_id(self, observation: Any, action_mask: Any = None) -> State:
        """The id of an observation, a new id if it is new; notes which actions the mask allows there."""
        if action_mask is None:
            state = self.encoding.find(observation)
            if state < self.encoding.states.n and state < self.learner.evidence.n_states:
                return state
        mask = self.check(observation, action_mask)
        evidence, states = self.learner.evidence, self.encoding.states
        assert isinstance(evidence, Statistics)
        self._namings.append(
            partial(self._take_back_naming, states.n, evidence.before_naming(states.find(observation)))
        )
        state = states.encode(observation)
        evidence.make_room(state + 1)
        if mask is not None:
            evidence.allow(state, mask)
        return state

    def _take_back_naming(self, n_labels: int, before: tuple[Any, ...]) -> None:
        """Undo the id of a new observation, and its mask."""
        if isinstance(self.encoding.states, LabelCodec):
            self.encoding.states.forget(n_labels)
        assert isinstance(self.learner.evidence, Statistics)
        self.learner.evidence.take_back_naming(before)

    def check(self, observation: Any, action_mask: Any = None) -> tuple[bool, ...] | None:
        """The mask as plain bools; refuses masks and observations that cannot be used, before anything changes."""
        evidence = self.learner.evidence
        mask = None if action_mask is None else checked_action_mask(action_mask, evidence.n_actions)
        if self.encoding.find(observation) >= evidence.n_states:
            self.limits.check_sizes(evidence.n_states + 1, evidence.n_actions)
        return mask

    def act_on(self, observation: Any, action_mask: Any = None) -> int:
        """The action to take after an observation, exploring; if anything is raised, nothing has changed."""
        self._take_turn()
        try:
            return self._act(self.state_id(observation, action_mask))
        except BaseException:
            if isinstance(self.learner, InContextLearner):
                self.learner.take_back_plan()
            self._take_back_namings()
            raise
        finally:
            if isinstance(self.learner, InContextLearner):
                self.learner.keep_plan()
            self._namings.clear()
            self.owner = 0

    def observe(
        self, observation: Any, action: Any, reward: Any, following: Any, terminated: Any, truncated: Any, mask: Any
    ) -> None:
        """Learn from one transition; if anything is raised, nothing has changed."""
        self._take_turn()
        try:
            number = self.encoding.actions.encode(action)
            reward = self.checked_reward(reward, terminated, truncated)
            self.check(following, mask)  # before the first of the two gets an id
            state, next_state = self.state_id(observation), self.state_id(following, mask)
            self._record(Transition(state, number, reward, next_state, terminated, truncated), 0)
        except BaseException:
            self._take_back_namings()
            raise
        finally:
            self._namings.clear()
            self.owner = 0

    def act(self, state: State) -> int:
        """The action to take in a state, exploring."""
        self._take_turn()
        try:
            return self._act(state)
        finally:
            self.owner = 0

    def record(self, transition: Transition, environment: int = 0) -> None:
        """Let the learner observe one transition, and remember how the episode goes."""
        self._take_turn()
        try:
            reward = self.checked_reward(transition.reward, transition.terminated, transition.truncated)
            self._record(transition._replace(reward=reward), environment)
        finally:
            self._namings.clear()
            self.owner = 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Keep other threads from changing anything inside this context."""
        mine = self.owner == get_ident()
        if not mine:
            self._wait_for_turn()
        try:
            yield
        finally:
            if not mine:
                self.owner = 0

    def _take_turn(self) -> None:
        """Wait for the calls of other threads; while one of them runs episodes, calls that change are refused."""
        me = get_ident()
        if self.runner:
            self.refuse_others()
        if self.owner and self.owner != me:
            self._wait_for_turn(patient=self.runner == me)
        self.owner = me  # nothing comes between the last look and this: threads are switched at calls and loops

    def refuse_others(self) -> None:
        """Refuse a call while another thread runs episodes."""
        if self.runner and self.runner != get_ident():
            limit = "it lives through episodes there"
            raise MdpfnError("the agent", "busy in another thread", limit, "give every thread its own agent")

    def _wait_for_turn(self, *, patient: bool = False) -> None:
        """Wait until no other call is under way; whoever lives through episodes loses nothing by waiting for long."""
        me, waited = get_ident(), time.monotonic()
        while self.owner:
            if not patient and time.monotonic() - waited > LONGEST_WAIT:
                limit = "calls of several threads take turns, and this one would wait for too long"
                raise MdpfnError("the agent", "busy in another thread", limit, "give every thread its own agent")
            time.sleep(SHORT_WAIT)
        self.owner = me

    def _take_back_namings(self) -> None:
        for take_back in reversed(self._namings):
            take_back()

    def _act(self, state: State) -> int:
        """The learner's action, exploring; a random allowed one if it planned before a mask forbade its choice."""
        learner, action = self.learner, self.learner.act(state)
        assert isinstance(learner, Learner)
        mask = learner.evidence.mask(state)
        return action if mask is None or mask[action] else learner.any_action(state)

    def _record(self, transition: Transition, environment: int) -> None:
        """Let learner and history record a transition; if anything is raised, neither does."""
        learner, history = self.learner, self.history
        before = learner.before(transition)
        lived = history.before(transition.state, environment)
        try:
            learner.observe(transition)
            history.note(transition.state, transition.reward, bool(transition.ends_episode), environment)
        except BaseException:
            learner.take_back(before)
            history.take_back(lived)
            raise

    def checked_reward(self, reward: Any, terminated: Any, truncated: Any) -> float:
        """The reward as a float, checked together with the flags for the end of the episode."""
        for field_name, flag in (("terminated", terminated), ("truncated", truncated)):
            check_flag(field_name, flag)
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
        on_step: Callable[[], bool] | None = None,
    ) -> None:
        """Run this many more episodes of `env`.

        An episode that reaches `max_episode_steps` is truncated. In a vector environment the first `episodes` to
        finish count, and what was observed in the others is kept too. `on_step` is called after every step, and ends
        the run by returning False.
        """
        envs = adapter_of(env, self.encoding, self.state_id, max_episode_steps)
        history = self.history
        self.refuse_others()
        history.under_way.clear()
        target, finished = len(history.returns) + episodes, len(history.returns)
        started = time.perf_counter() - history.seconds

        def goes_on() -> bool:
            nonlocal finished
            wanted = on_step is None or on_step()
            if len(history.returns) == finished:
                return wanted
            finished = len(history.returns)
            history.seconds = time.perf_counter() - started
            stops = on_episode is not None and on_episode(history) is False
            return wanted and finished < target and not stops

        try:
            self.runner = get_ident()
            run_episodes(self, envs, seed=seed, goes_on=goes_on)
        finally:
            self.runner = 0
            history.seconds = time.perf_counter() - started

    def before_run(self) -> Snapshot:
        """A snapshot of everything that a run changes before its first transition."""
        return Snapshot(self.history, self.learner, self.encoding.states)


def agent_rng(seed: int | None) -> np.random.Generator:
    """The random generator of an agent; it differs from that of an environment with the same seed."""
    return np.random.default_rng(None if seed is None else [whole_number("seed", seed, low=0), 1])
