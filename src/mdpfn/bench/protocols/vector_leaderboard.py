"""The leaderboard of environments with vectors: returns of policies after few episodes, and what was earned by then."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mdpfn.agent import Agent
from mdpfn.arrays import Floats
from mdpfn.bench.environments.vectors import VectorEnvironment
from mdpfn.bench.protocols.methods import StoredWeights
from mdpfn.bench.protocols.parallel import seed_of
from mdpfn.bench.protocols.results import Cell, Row
from mdpfn.evidence.smoothed import SmootherConfig
from mdpfn.online.history import History
from mdpfn.spaces.discretize import Discretize

IDENTITY = ("environment", "agent", "seed")
MEASURED = ("package", "episodes", "return", "earned", "seconds")
AGENTS = ("mdpfn", "discretize", "random")

Predict = Callable[[Any], Any]  # a batch of observations to a batch of actions


@dataclass(frozen=True)
class VectorProtocol:
    """Episodes to learn from, and episodes in which the policy is evaluated after 1, 2, 4, … of them."""

    episodes: int = 32
    evaluation_episodes: int = 10
    bins: int = 6  # of Discretize, per dimension


def cells(
    protocol: VectorProtocol,
    weights: StoredWeights,
    agents: Sequence[str],
    environments: Sequence[VectorEnvironment],
    seeds: int,
) -> list[Cell]:
    """One run per cell: a seed of all agents and environments before the next seed."""
    return [
        Cell(
            identity=(environment.name, agent, seed),
            settings=(protocol, SmootherConfig() if agent == "mdpfn" else None),
            weights_hash=weights.weights_hash if agent == "discretize" else "",  # no network reads vectors
            measure=partial(measure, protocol, environment, agent, seed, weights),
        )
        for seed in range(seeds)
        for environment in environments
        for agent in agents
    ]


def measure(
    protocol: VectorProtocol, environment: VectorEnvironment, agent: str, seed: int, weights: StoredWeights
) -> list[Row]:
    """One row after each of 1, 2, 4, … episodes: mean return of fresh episodes, and of all episodes so far.

    `seconds` is the time of learning and acting so far, evaluations left out.
    """
    chance = seed_of("vectors", environment.name, seed)
    rows: list[Row] = []
    evaluating = 0.0

    def wrapped(env: Any) -> Any:
        return Discretize(env, protocol.bins, seed=chance % 2**31) if agent == "discretize" else env

    def note(returns: Sequence[float], seconds: float, predict: Predict) -> None:
        nonlocal evaluating
        n, started = len(returns), time.perf_counter()
        if n & (n - 1) == 0:
            envs = [wrapped(environment.make()) for _ in range(protocol.evaluation_episodes)]
            score = float(returns_of(predict, envs, seed_of("evaluation", environment.name, seed)).mean())
            row: Row = {"package": environment.package, "episodes": n, "return": score}
            rows.append(row | {"earned": float(np.mean(returns)), "seconds": seconds - evaluating})
        evaluating += time.perf_counter() - started

    if agent == "random":
        learn_nothing(environment, protocol.episodes, chance, note)
        return rows
    learner = Agent(weights.load())

    def after_episode(history: History) -> None:
        note(history.returns, history.seconds, lambda observations: learner.predict(observations, on_unknown="best")[0])

    learner.solve(wrapped(environment.make()), protocol.episodes, seed=chance % 2**31, on_episode=after_episode)
    return rows


def returns_of(predict: Predict, envs: Sequence[Any], seed: int) -> Floats:
    """(envs,) returns of one episode in each, side by side: one prediction for all that are still going on."""
    observations = [env.reset(seed=(seed + i) % 2**31)[0] for i, env in enumerate(envs)]
    returns, going = np.zeros(len(envs)), list(range(len(envs)))
    while going:
        actions = predict(np.stack([observations[i] for i in going]))
        on = []
        for i, action in zip(going, actions, strict=True):
            observations[i], reward, terminated, truncated, _ = envs[i].step(action)
            returns[i] += float(reward)
            if not (terminated or truncated):
                on.append(i)
        going = on
    return returns


def learn_nothing(
    environment: VectorEnvironment, episodes: int, seed: int, note: Callable[[Sequence[float], float, Predict], None]
) -> None:
    """Episodes of random actions."""
    env = environment.make()
    env.action_space.seed(seed % 2**31)
    started, returns = time.perf_counter(), []

    def predict(observations: Any) -> Any:
        return [env.action_space.sample() for _ in observations]

    for episode in range(episodes):
        returns.append(float(returns_of(predict, [env], seed + episode)[0]))
        note(returns, time.perf_counter() - started, predict)
