"""The leaderboard: on many environments, what agents earn while learning and what their policies are worth."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from mdpfn.bench.environments import Environment, TabularEnv
from mdpfn.bench.protocols.methods import Method
from mdpfn.bench.protocols.parallel import generator, seed_of
from mdpfn.bench.protocols.results import Cell, Row
from mdpfn.model.exact import Scorer, finite_horizon_value, optimal_q
from mdpfn.online.history import History

P = TypeVar("P")

IDENTITY = ("environment", "agent", "weights", "options")
MEASURED = ("seed", "episodes", "score", "earned")


@dataclass(frozen=True)
class LeaderboardProtocol:
    """Episodes that each agent has, and seeds over which it repeats them."""

    episodes: int = 64
    seeds: int = 8


def cells(protocol: LeaderboardProtocol, methods: Sequence[Method], environments: Sequence[Environment]) -> list[Cell]:
    """Every method on every environment."""
    return cells_on(environments, methods, protocol, measure)


def cells_on(
    environments: Sequence[Environment],
    methods: Sequence[Method],
    protocol: P,
    measure: Callable[[P, Environment, Method], list[Row]],
) -> list[Cell]:
    """A cell for every method on every environment.

    Rows depend on the protocol, on the content of the file that an environment was read from, and on the constants of
    explorer and planners.
    """
    return [
        Cell(
            identity=(environment.name, *method.identity),
            settings=(protocol, environment.checksum, method.constants),
            weights_hash=method.weights_hash,
            measure=partial(measure, protocol, environment, method),
        )
        for method in methods
        for environment in environments
    ]


def measure(protocol: LeaderboardProtocol, environment: Environment, method: Method) -> list[Row]:
    """One row per seed after 1, 2, 4, … episodes."""
    return scores_after({2**i for i in range(protocol.episodes.bit_length())}, protocol, environment, method)


def scores_after(
    episodes: Collection[int], protocol: LeaderboardProtocol, environment: Environment, method: Method
) -> list[Row]:
    """One row per seed after each of these numbers of episodes, random 0 and optimal 1 in both columns.

    `score` is the exact normalized value of the policy that the agent would exploit by, `earned` the mean of all
    episodes' discounted returns so far, normalized by what uniform and optimal actions earn within the horizon.
    Episodes end in terminal states and are truncated at the environment's horizon. States and actions are numbered
    anew for every seed, so that what an action is called decides nothing.
    """
    mdp = environment.build()
    scorer, horizon = Scorer(mdp), environment.horizon
    uniform = np.full(mdp.reward.shape, 1 / mdp.n_actions)
    worst, best = (finite_horizon_value(mdp, p, horizon) for p in (uniform, optimal_q(mdp).argmax(axis=1)))
    least = 1e-12 * float(np.abs(mdp.reward).max())
    rows: list[Row] = []
    for seed in range(protocol.seeds):
        rng = generator("leaderboard", environment.name, seed)
        labels = rng.permutation(mdp.n_states), rng.permutation(mdp.n_actions)
        contestant = method.start(mdp, seed_of("leaderboard", environment.name, seed))

        def after_episode(history: History) -> None:
            number = len(history.returns)
            if number in episodes:
                policy = contestant.policy()[labels[0]][:, labels[1]]  # noqa: B023
                earned = (np.mean(history.discounted_returns) - worst) / (max(best - worst, least) or 1.0)
                rows.append({"seed": seed, "episodes": number, "score": scorer(policy), "earned": float(earned)})  # noqa: B023

        env = TabularEnv(mdp, horizon=horizon, labels=labels)
        contestant.solve(env, protocol.episodes, after_episode)
    return rows
