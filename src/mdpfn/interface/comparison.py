"""Other agents in the same environment, and what the policies that came of it are worth there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdpfn.agents import AGENTS
from mdpfn.agents.policies import ActionSampler
from mdpfn.arrays import Floats
from mdpfn.errors import MdpfnError
from mdpfn.interface.agent import agent_rng
from mdpfn.interface.context import Context, Names, Options
from mdpfn.interface.limits import Limits
from mdpfn.interface.online import OnEpisode, default_step_limit, reset_env, run_episodes, spaces_of, step_env
from mdpfn.interface.spaces import codec_of


def check_names(names: Sequence[str]) -> None:
    """Refuse agents that there are not, and those named twice."""
    for name in names:
        if name not in AGENTS or names.count(name) > 1:
            limit = f"each must be another one of {', '.join(AGENTS)}"
            raise MdpfnError("compare", repr(name), limit, "choose among these")


def check_countable(names: Sequence[str], env: Any) -> None:
    """Refuse agents that need a table with a row per state, where states cannot be counted beforehand."""
    limits = Limits()
    if names and codec_of(spaces_of(env)[0], "observation", limits.states).n == 0:
        limit = f"it needs a finite space of at most {limits.states} states"
        raise MdpfnError("compare", repr(names[0]), limit, "leave it out, or use fewer bins")


def run_baseline(
    name: str, env: Any, episodes: int, *, seed: int, discount: float, on_episode: OnEpisode | None = None
) -> Context[Any]:
    """The context of an agent of `AGENTS` after this many episodes of `env`."""
    observation_space, action_space = spaces_of(env)
    limits = Limits()
    states = codec_of(observation_space, "observation", limits.states)
    actions = codec_of(action_space, "action", limits.actions)
    learner = AGENTS[name](states.n, actions.n, discount=discount, rng=agent_rng(seed))
    names = Names(observation_space, action_space, states, actions)
    context = Context(names, learner, Options(discount=discount), limits)
    run_episodes(context, env, episodes, seed=seed, on_episode=on_episode)
    return context


def mean_return(env: Any, names: Names, policy: Floats, episodes: int, seed: int) -> float:
    """The undiscounted return of π (S, A) in `env`, averaged over this many episodes.

    In states without a row any action is taken.
    """
    rng = agent_rng(seed)
    choose, step_limit = ActionSampler(policy, rng), default_step_limit(env)
    total = 0.0
    for episode in range(episodes):
        observation, ended, steps = reset_env(env, seed=seed if episode == 0 else None), False, 0
        while not ended and steps != step_limit:
            state = names.states.encode(observation)
            action = choose(state) if state < len(policy) else int(rng.integers(policy.shape[1]))
            observation, reward, terminated, truncated, _ = step_env(env, names.actions.decode(action))
            total, ended, steps = total + float(reward), bool(terminated or truncated), steps + 1
    return float(np.divide(total, episodes))
