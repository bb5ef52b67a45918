"""Adapters that give single and vector Gymnasium environments, in every autoreset mode, the same interface.

The episode loop sees ids (or vectors) of states and ids of actions, one per environment that runs side by side.
"""

import importlib
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from mdpfn.checks import check_flag
from mdpfn.errors import MdpfnError, shown
from mdpfn.evidence import State
from mdpfn.spaces.codec import Codec
from mdpfn.spaces.encoding import SpaceEncoding

MASK = "action_mask"  # where Gymnasium's environments say which actions exist
GO_ON = "mend it and call solve(..., resume=True): everything observed so far is kept"  # after an environment failed
LONGEST_EPISODE = 1_000  # steps, in environments that have no time limit of their own


class StateEncoder(Protocol):
    """Maps observations to ids or vectors of states."""

    def __call__(self, observation: Any, action_mask: Any = None) -> State:
        """The id or vector of an observation; `action_mask` is Gymnasium's, if there is one."""


class Outcome(NamedTuple):
    """The outcome of an action."""

    reward: Any
    reached: State
    terminated: Any
    truncated: Any


class EnvAdapter(Protocol):
    """Some environments side by side."""

    def reset(self, seed: int | None) -> list[State | None]:
        """Reset all environments; returns their first states."""

    def step(self, actions: list[int | None]) -> list[Outcome]:
        """Step all environments; the outcome of one that had no action (None) is meaningless."""

    def current_states(self) -> list[State | None]:
        """The states to act in next, after ended episodes were reset; None where the next step will reset one."""


def adapter_of(
    env: Any, encoding: SpaceEncoding, state_id: StateEncoder, max_episode_steps: int | None = None
) -> EnvAdapter:
    """The adapter of a single or vector environment."""
    if not isinstance(env, VectorEnv):
        return SingleEnvAdapter(env, state_id, encoding.actions, max_episode_steps or default_step_limit(env))
    if max_episode_steps is not None:
        limit = "vector environments end their own episodes"
        raise MdpfnError("max_episode_steps", max_episode_steps, limit, "give every copy a gymnasium TimeLimit")
    return VectorEnvAdapter(env, state_id, encoding.states, encoding.actions)


class SingleEnvAdapter:
    """One environment; an episode that reaches `step_limit` is truncated."""

    def __init__(self, env: Any, state_id: StateEncoder, actions: Codec, step_limit: int | None) -> None:
        self.env, self.state_id, self.actions, self.step_limit = env, state_id, actions, step_limit
        self._state: State = None
        self._steps, self._ended = 0, False

    def reset(self, seed: int | None) -> list[State | None]:
        """The first state of an episode."""
        observation, info = reset_env(self.env, seed=seed)
        self._state, self._steps, self._ended = self.state_id(observation, info.get(MASK)), 0, False
        return [self._state]

    def step(self, actions: list[int | None]) -> list[Outcome]:
        """The outcome of the action."""
        assert actions[0] is not None
        observation, reward, terminated, truncated, info = step_env(self.env, self.actions.decode(actions[0]))
        check_flag("terminated", terminated)
        check_flag("truncated", truncated)
        self._state = self.state_id(observation, None if terminated else info.get(MASK))
        self._steps += 1
        truncated = truncated or self._steps == self.step_limit
        self._ended = bool(terminated or truncated)
        return [Outcome(reward, self._state, terminated, truncated)]

    def current_states(self) -> list[State | None]:
        """The state to act in next; resets the environment after the end of an episode."""
        return self.reset(None) if self._ended else [self._state]


class VectorEnvAdapter:
    """The environments of a vector environment."""

    def __init__(self, env: Any, state_id: StateEncoder, states: Codec, actions: Codec) -> None:
        self.env, self.state_id, self.states, self.actions = env, state_id, states, actions
        self.mode = env.metadata.get("autoreset_mode")
        if self.mode not in tuple(AutoresetMode):
            limit = "it must say how it resets, in metadata['autoreset_mode']"
            raise MdpfnError("env", shown(env), limit, "set it to a gymnasium.vector.AutoresetMode")
        self._now: list[State | None] = []
        self._ended = np.zeros(env.num_envs, dtype=bool)

    def reset(self, seed: int | None) -> list[State | None]:
        """The first states."""
        self._ended[:] = False
        self._now = self._ids(*reset_env(self.env, seed=seed))
        return self._now

    def step(self, actions: list[int | None]) -> list[Outcome]:
        """The outcome of each action; an environment that resets in this step ignores its action."""
        chosen = self.actions.batch([self.actions.decode(action or 0) for action in actions])
        observations, rewards, terminated, truncated, info = step_env(self.env, chosen)
        self._ended = np.logical_or(terminated, truncated)
        goes_on = self.mode is AutoresetMode.SAME_STEP  # these observations are of the next episode where one ended
        self._now = self._ids(observations, info, None if goes_on else ~np.asarray(terminated))
        reached = self._final_states(info) if self.mode is AutoresetMode.SAME_STEP else self._now
        flags = zip(np.asarray(terminated).tolist(), np.asarray(truncated).tolist(), strict=True)
        rows = zip(np.asarray(rewards).tolist(), reached, flags, strict=True)
        return [Outcome(reward, state, *ends) for reward, state, ends in rows]

    def current_states(self) -> list[State | None]:
        """The states to act in next; None where the next step resets an environment."""
        if self.mode is AutoresetMode.DISABLED and self._ended.any():
            self._now = self._ids(*reset_env(self.env, options={"reset_mask": self._ended}))
        if self.mode is AutoresetMode.NEXT_STEP:
            return [None if ended else state for state, ended in zip(self._now, self._ended, strict=True)]
        return self._now

    def _ids(self, observations: Any, info: dict[str, Any], has_choice: Any = None) -> list[State | None]:
        """The ids of all observations, with their masks where the environment gave one and there is a choice."""
        given = np.asarray(info.get(f"_{MASK}", MASK in info)) & (True if has_choice is None else has_choice)
        masks = [info[MASK][i] if has else None for i, has in enumerate(np.broadcast_to(given, len(self._ended)))]
        return list(map(self.state_id, self.states.unbatch(observations), masks))

    def _final_states(self, info: dict[str, Any]) -> list[State | None]:
        """The last state of each ended episode, and the current state elsewhere."""
        if self._ended.any() and "final_obs" not in info:
            limit = "an environment that resets in the same step must give info['final_obs']"
            raise MdpfnError("env", "without it", limit, "use another autoreset mode")
        return [
            self.state_id(info["final_obs"][i]) if end else state
            for i, (state, end) in enumerate(zip(self._now, self._ended, strict=True))
        ]


def made_env(env: Any, **arguments: Any) -> Any:
    """The environment itself, or the one that its id and these arguments make."""
    if isinstance(env, type):
        raise MdpfnError("env", f"the class {env.__name__}", "it must be an environment", f"make one: {env.__name__}()")
    if not isinstance(env, str):
        return env
    if env.startswith("mdpfn/"):
        importlib.import_module("mdpfn.bench.environments")  # registers the environments of this package
    try:
        return gymnasium.make(env, **arguments)
    except Exception as error:
        limit = f"Gymnasium could not make it ({error})"
        raise MdpfnError("env", shown(env), limit, "check its id, or install what it needs") from None


def spaces_of(env: Any) -> tuple[Any, Any]:
    """The observation and the action space of a single environment, also of one inside a vector environment."""
    try:
        if isinstance(env, VectorEnv):
            return env.single_observation_space, env.single_action_space
        return env.observation_space, env.action_space
    except AttributeError:
        limit = "it must be a Gymnasium environment, with an observation and an action space"
        raise MdpfnError("env", shown(env), limit, "make it with gymnasium.make or subclass gymnasium.Env") from None


def default_step_limit(env: Any) -> int | None:
    """`LONGEST_EPISODE` for an environment without a time limit, None for one with."""
    spec = getattr(env, "spec", None)
    if spec is not None and spec.max_episode_steps is not None:
        return None
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, gymnasium.wrappers.TimeLimit):
            return None
        env = env.env
    return LONGEST_EPISODE


def reset_env(env: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Reset the environment; returns (observation, info)."""
    outcome = _call(env, "reset", **options)
    if not (isinstance(outcome, tuple) and len(outcome) == 2 and isinstance(outcome[1], dict)):
        limit = "reset must return (observation, info), as in Gymnasium"
        raise MdpfnError("env", "an environment of the old Gym interface", limit, "wrap or update it")
    return outcome


def step_env(env: Any, action: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Take a step; returns (observation, reward, terminated, truncated, info)."""
    outcome = _call(env, "step", action)
    if not (isinstance(outcome, tuple) and len(outcome) == 5):
        what = f"returning {len(outcome)} values from step" if isinstance(outcome, tuple) else "not returning a tuple"
        limit = "step must return (observation, reward, terminated, truncated, info), as in Gymnasium"
        raise MdpfnError("env", what, limit, "tell terminated and truncated apart in place of done")
    return outcome


def _call(env: Any, method: str, *arguments: Any, **options: Any) -> Any:
    try:
        return getattr(env, method)(*arguments, **options)
    except MdpfnError:
        raise
    except Exception as error:
        limit = "it must run without an exception"
        raise MdpfnError("env", f"raising {error!r} in {method}", limit, GO_ON) from error
