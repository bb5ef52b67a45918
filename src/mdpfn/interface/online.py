"""Episodes in Gymnasium environments: single ones, and vector ones in every autoreset mode."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from mdpfn.agents.base import Transition
from mdpfn.errors import MdpfnError
from mdpfn.interface.context import Context
from mdpfn.interface.history import History

LONGEST_EPISODE = 1_000  # steps, in environments that have no time limit of their own

OnEpisode: TypeAlias = Callable[[History], None]


def run_episodes(
    context: Context[Any],
    env: Any,
    episodes: int,
    *,
    seed: int | None,
    max_episode_steps: int | None = None,
    on_episode: OnEpisode | None = None,
) -> None:
    """Let the learner of `context` live through this many more episodes of `env`.

    An episode that reaches `max_episode_steps` is truncated. In a vector environment the first `episodes` to
    finish count, and what was observed of the others is kept too.
    """
    if isinstance(env, VectorEnv) and max_episode_steps is not None:
        limit = "vector environments end their own episodes"
        raise MdpfnError("max_episode_steps", max_episode_steps, limit, "give every copy a gymnasium TimeLimit")
    history = context.history
    history.under_way.clear()
    target = len(history.returns) + episodes
    started = time.perf_counter() - history.seconds

    def after_episode() -> None:
        history.seconds = time.perf_counter() - started
        if on_episode is not None:
            on_episode(history)

    try:
        if isinstance(env, VectorEnv):
            _run_vector(context, env, target, seed, after_episode)
        else:
            _run_single(context, env, target, seed, max_episode_steps or default_step_limit(env), after_episode)
    finally:
        history.seconds = time.perf_counter() - started


def spaces_of(env: Any) -> tuple[Any, Any]:
    """The observation and the action space of a single environment, also of one inside a vector environment."""
    try:
        if isinstance(env, VectorEnv):
            return env.single_observation_space, env.single_action_space
        return env.observation_space, env.action_space
    except AttributeError:
        limit = "it must be a Gymnasium environment, with an observation and an action space"
        raise MdpfnError("env", repr(env), limit, "make it with gymnasium.make or subclass gymnasium.Env") from None


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


def _run_single(
    context: Context[Any],
    env: Any,
    target: int,
    seed: int | None,
    step_limit: int | None,
    after_episode: Callable[[], None],
) -> None:
    act, decode, state_id, record = context.learner.act, context.names.actions.decode, context.state_id, context.record
    history = context.history
    while len(history.returns) < target:
        state, steps = state_id(reset_env(env, seed=seed)), 0
        seed, ended = None, False
        while not ended:
            action = act(state)
            observation, reward, terminated, truncated, _ = step_env(env, decode(action))
            next_state, steps = state_id(observation), steps + 1
            truncated = truncated or steps == step_limit
            record(Transition(state, action, reward, next_state, terminated, truncated))
            state, ended = next_state, terminated or truncated
        after_episode()


def _run_vector(
    context: Context[Any], env: Any, target: int, seed: int | None, after_episode: Callable[[], None]
) -> None:
    """Steps all environments at once. Every mode is brought into the same form: what followed each action, and
    in which state each environment is now."""
    mode = env.metadata.get("autoreset_mode")
    if mode not in tuple(AutoresetMode):
        limit = "it must say how it resets, in metadata['autoreset_mode']"
        raise MdpfnError("env", repr(env), limit, "set it to a gymnasium.vector.AutoresetMode")
    act, actions, history = context.learner.act, context.names.actions, context.history
    states = _state_ids(context, reset_env(env, seed=seed))
    waiting = np.zeros(env.num_envs, dtype=bool)  # for the step that resets them, whose action is ignored
    while len(history.returns) < target:
        chosen = [0 if wait else act(state) for state, wait in zip(states, waiting, strict=True)]
        outcome = step_env(env, actions.batch([actions.decode(action) for action in chosen]))
        observations, rewards, terminated, truncated, info = outcome
        ended = np.logical_or(terminated, truncated)
        now = _state_ids(context, observations)
        reached = _final_states(context, now, info, ended) if mode is AutoresetMode.SAME_STEP else now
        for i in np.flatnonzero(~waiting).tolist():
            flags = bool(terminated[i]), bool(truncated[i])
            transition = Transition(states[i], chosen[i], float(rewards[i]), reached[i], *flags)
            context.record(transition, environment=i)
            if ended[i]:
                after_episode()
            if len(history.returns) == target:
                return
        if mode is AutoresetMode.DISABLED and ended.any():
            now = _state_ids(context, reset_env(env, options={"reset_mask": ended}))
        states, waiting = now, ended if mode is AutoresetMode.NEXT_STEP else waiting


def _state_ids(context: Context[Any], observations: Any) -> list[int]:
    return [context.state_id(observation) for observation in context.names.states.unbatch(observations)]


def _final_states(context: Context[Any], states: list[int], info: dict[str, Any], ended: Any) -> list[int]:
    """The states in which episodes ended where they did, and `states` elsewhere."""
    if ended.any() and "final_obs" not in info:
        limit = "an environment that resets in the same step must give info['final_obs']"
        raise MdpfnError("env", "without it", limit, "use another autoreset mode")
    return [
        context.state_id(info["final_obs"][i]) if end else state
        for i, (state, end) in enumerate(zip(states, ended, strict=True))
    ]


def reset_env(env: Any, **options: Any) -> Any:
    """The first observation of an episode."""
    outcome = _call(env, "reset", **options)
    if not (isinstance(outcome, tuple) and len(outcome) == 2 and isinstance(outcome[1], dict)):
        limit = "reset must return (observation, info), as in Gymnasium"
        raise MdpfnError("env", "an environment of the old Gym interface", limit, "wrap or update it")
    return outcome[0]


def step_env(env: Any, action: Any) -> tuple[Any, Any, Any, Any, Any]:
    """What followed an action."""
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
        remedy = "mend it and call solve(..., resume=True): everything observed so far is kept"
        raise MdpfnError("env", f"raising {error!r} in {method}", limit, remedy) from error
