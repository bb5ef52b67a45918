"""Attacks on calls: nonsense in every argument, after which the agent is bit for bit what it was."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from benchmarks.faults.agents import KINDS, fresh, snapshot
from benchmarks.faults.tally import Tally, UserBug
from mdpfn import Agent, Statistics


class Hostile:
    """Raises whatever is asked of it."""

    def _fail(self, *_: Any, **__: Any) -> Any:
        raise UserBug

    __hash__ = __eq__ = __index__ = __float__ = __len__ = __iter__ = __array__ = __bool__ = __repr__ = __lt__ = _fail
    __getitem__ = __int__ = __str__ = __ge__ = __le__ = __gt__ = _fail


class BrokenEnv(gym.Env):
    """An environment that breaks in some step, in one of many ways."""

    observation_space: Any = spaces.Discrete(3)
    action_space: Any = spaces.Discrete(2)

    def __init__(self, when: int, how: Callable[[], Any]) -> None:
        self.when, self.how = when, how

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return (0, {}) if self.when else self.how()

    def step(self, action: Any) -> Any:
        self.when -= 1
        return (1, 0.5, False, False, {}) if self.when > 0 else self.how()


def fail() -> Any:
    raise UserBug


def nested(depth: int) -> Any:
    value: Any = ()
    for _ in range(depth):
        value = (value,)
    return value


def nonsense() -> tuple[Any, ...]:
    big = 10**5000
    numbers = (-1, 0, 1, 3, 16, 10**6, 2**63, -(2**63) - 1, 10**400, big, 1.5, -0.0, 1e308, 1e-320, np.nan, np.inf)
    arrays = (
        *(np.zeros(shape) for shape in ((), 0, 4, (2, 4), (1, 1, 4))), np.array(1), np.full(4, np.nan),
        np.full(4, 1e300),
        np.array(["a"]), np.array([None]), np.array([True, False]), np.array([0, 0]), np.array([1, 1, 1, 1]),
        np.array(1 + 2j), np.datetime64("2020"), np.float32("inf"), np.longdouble("1e4000"), np.int8(-1),
        np.bool_(True),
    )  # fmt: skip
    others = (
        None, True, "", "x", "\ud800", "\x00", b"x", [], [[]], [1, [2]], (), (1, 2), {}, {"a": 1}, {1}, object(),
        Hostile(),
        nested(3000), range(3), int, fail, 1j, ["left"], [0, 1], (0, 1), (1, 0), (None, None), slice(3), ...,
    )  # fmt: skip
    boxes = spaces.Box(-1, 1, (3,)), spaces.Box(-np.inf, np.inf, (99,)), spaces.Dict({"a": spaces.Box(0, 1, ())})
    counted = spaces.Discrete(3), spaces.Discrete(10**9), spaces.MultiBinary(10**6), spaces.MultiDiscrete([2**40] * 9)
    made = (*boxes, *counted, spaces.Text(3), spaces.Dict({}), spaces.Tuple(()))
    return (*numbers, *arrays, *others, *made)


def good(kind: str) -> dict[str, Any]:
    observation: Any = {"names": "a", "vectors": np.zeros(4)}.get(kind, 0)
    action: Any = "left" if kind == "names" else 0
    return {
        "observation": observation,
        "action": action,
        "reward": 0.5,
        "next_observation": observation,
        "terminated": False,
        "truncated": False,
    }


def random_call(
    agent: Agent, kind: str, rng: random.Random, values: tuple[Any, ...]
) -> tuple[str, Callable[[], object]]:
    """A call with nonsense in one or two places."""

    def value() -> Any:
        return rng.choice(values)

    def with_nonsense(arguments: dict[str, Any], *more: str) -> dict[str, Any]:
        names = [*arguments, *more]
        return arguments | {name: value() for name in rng.sample(names, min(len(names), rng.choice([1, 1, 2])))}

    options = ("discount", "reward_range", "replan_every", "risk", "objective", "explore")
    here, log = (
        good(kind),
        {"state": [0, 1], "action": [0, 1], "reward": [0.0, 1.0], "next_state": [1, 0], "terminated": [False, True]},
    )
    match rng.randrange(10):
        case 0 | 1:
            given = with_nonsense(here, "action_mask")
            return f"observe {sorted(given)}", lambda: agent.observe(**given)
        case 2:
            given = with_nonsense({"observation": here["observation"]}, "action_mask")
            return "act", lambda: agent.act(**given)
        case 3:
            given = with_nonsense({"observation": here["observation"]}, "action_mask", "deterministic", "on_unknown")
            return "predict", lambda: agent.predict(**given)
        case 4:
            given = with_nonsense({"observation_space": 3, "action_space": 2}, "budget", "seed", *options)
            return "reset", lambda: agent.reset(**given)
        case 5:
            given = with_nonsense({}, "statistics", "depth", "risk", "discount", "reward_range")
            return "plan", lambda: agent.plan(**given)
        case 6:
            given = with_nonsense(
                {"transitions": log}, "columns", "observation_space", "action_space", "seed", *options
            )
            return "fit", lambda: agent.fit(**given)
        case 7:
            columns = with_nonsense(dict(log), "truncated")
            return "fit columns", lambda: agent.fit(columns)
        case 8:
            env = rng.choice(
                [
                    value(),
                    BrokenEnv(
                        rng.randrange(4),
                        rng.choice(
                            [value, fail, lambda: (value(), {}), lambda: (value(), value(), value(), value(), {})]
                        ),
                    ),
                ]
            )
            given = (
                with_nonsense({"episodes": 2}, "seed", "max_episode_steps", "evaluate", "resume", *options)
                if rng.random() < 0.5
                else {"episodes": 2, "resume": rng.random() < 0.5}
            )
            return "solve", lambda: agent.solve(env, **given)
    path = rng.choice([one for one in values if not isinstance(one, str | bytes | int)])  # a number is an open file
    reader = rng.choice([Agent.load, Agent.from_pretrained, Statistics.load, agent.save, agent.fit])
    return f"{reader.__name__} of a path", lambda: reader(path)


def attack_inputs(directory: Path, rng: random.Random, tries: int) -> Tally:
    """Calls with nonsense in their arguments."""
    tally, values = Tally(), nonsense()
    for kind in KINDS:
        agent = fresh(kind)
        before = snapshot(agent)
        for _ in range(-(-tries // len(KINDS))):
            what, call = random_call(agent, kind, rng, values)
            refused = tally.attempt(f"{kind}: {what}", call, lambda a=agent, b=before, w=what: is_as_before(a, b, w))
            if not refused or snapshot(agent) != before:
                agent = fresh(kind)
    return tally


def is_as_before(agent: Agent, before: str, what: str) -> bool:
    """Whether nothing changed; but what an environment paid before it broke is kept, in whole transitions."""
    if snapshot(agent) == before:
        return True
    history = agent.problem.history
    n_steps = sum(history.lengths) + sum(episode.length for episode in history.under_way.values())
    return what == "solve" and 0 < agent.evidence.n_transitions == n_steps
