"""Greedy return against episodes in context, at several depths of the network (B.2)."""

from dataclasses import dataclass

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.bench.environments import ENVIRONMENTS, Environment, TabularEnv
from mdpfn.bench.protocols.leaderboard import cells_on
from mdpfn.bench.protocols.methods import IN_CONTEXT, Method, StoredWeights
from mdpfn.bench.protocols.parallel import seed_of
from mdpfn.bench.protocols.results import Cell, Row
from mdpfn.model.exact import optimal_q
from mdpfn.model.mdp import TabularMDP
from mdpfn.online.evaluation import evaluate
from mdpfn.online.history import History
from mdpfn.planners.policies import ActionSampler, best_actions, one_hot
from mdpfn.spaces.encoding import SpaceEncoding

MEASURED = ("seed", "episodes", "return", "score")


@dataclass(frozen=True)
class LearningCurveProtocol:
    """The settings of B.2, repeated for some seeds where the paper shows one."""

    environments: tuple[str, ...] = ("gridworld-5x5", "frozen-lake", "gridworld-3x3")
    depths: tuple[int, ...] = (38, 24, 20, 16, 8, 4)
    seeds: int = 4
    episodes: int = 512
    horizon: int = 50
    acting_temperature: float = 0.3
    greedy_rollouts: int = 256  # averaged in stochastic environments; in deterministic ones all are equal
    reference_episodes: int = 2000


def cells(protocol: LearningCurveProtocol, weights: StoredWeights) -> list[Cell]:
    """The agent at every depth, its network's own softmax policy acting."""
    options = {"exploration": "softmax", "acting_temperature": protocol.acting_temperature}
    methods = [Method(IN_CONTEXT, {"depth": depth, **options}, weights) for depth in protocol.depths]
    environments = [ENVIRONMENTS[name] for name in protocol.environments]
    return cells_on(environments, methods, protocol, measure)


def measure(protocol: LearningCurveProtocol, environment: Environment, method: Method) -> list[Row]:
    """One row per seed and probed episode, with its greedy return and score.

    Probe n = 1, 2, 4, … shows what was learned in the n − 1 episodes before it. Its score is
    (R − R_random) / (R_optimal − R_random).
    """
    mdp = environment.build()
    uniform, optimal = (
        np.full(mdp.reward.shape, 1 / mdp.n_actions),
        one_hot(best_actions(optimal_q(mdp)), mdp.n_actions),
    )
    seed = seed_of("learning curves", environment.name)
    references = (mean_return(mdp, p, protocol.horizon, protocol.reference_episodes, seed) for p in (uniform, optimal))
    random_return, optimal_return = references
    n_rollouts = 1 if mdp.transition.data.min() == 1.0 else protocol.greedy_rollouts
    rows: list[Row] = []
    for number in range(protocol.seeds):
        contestant = method.start(mdp, seed_of("learning curves", environment.name, number))

        def probe(history: History | None = None) -> None:
            episode = 1 + (0 if history is None else len(history.returns))
            if episode & (episode - 1) == 0:
                policy = contestant.policy()  # noqa: B023
                found = mean_return(mdp, policy, protocol.horizon, n_rollouts, episode)
                score = (found - random_return) / (optimal_return - random_return)
                rows.append({"seed": number, "episodes": episode, "return": found, "score": score})  # noqa: B023

        probe()
        env = TabularEnv(mdp, horizon=protocol.horizon, terminates=False)
        contestant.solve(env, protocol.episodes - 1, probe)
    return rows


def mean_return(mdp: TabularMDP, policy: Floats, horizon: int, episodes: int, seed: int) -> float:
    """The undiscounted return of π (S, A) over `horizon` steps, averaged over episodes (B.2)."""
    env = TabularEnv(mdp, horizon=horizon, terminates=False)
    encoding = SpaceEncoding.of(mdp.n_states, mdp.n_actions)
    choose = ActionSampler(policy, np.random.default_rng([seed, 1]))
    return float(evaluate(choose, env, encoding, episodes, seed=seed).mean())
