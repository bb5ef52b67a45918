"""What agents make of logs of mediocre policies: exact score by episodes, on average and in the worst tenth."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mdpfn.agent import Agent
from mdpfn.arrays import Floats
from mdpfn.baselines.problem import baseline_problem
from mdpfn.bench.environments import Environment
from mdpfn.bench.protocols.leaderboard import cells_on
from mdpfn.bench.protocols.logged_data import Log, LogSource, soft_policy
from mdpfn.bench.protocols.methods import IN_CONTEXT, Method
from mdpfn.bench.protocols.parallel import generator, seed_of
from mdpfn.bench.protocols.results import Cell, Row
from mdpfn.data.log import Logged
from mdpfn.model.exact import Scorer
from mdpfn.model.mdp import TabularMDP
from mdpfn.online.options import Options
from mdpfn.spaces.encoding import SpaceEncoding

MEASURED = ("seed", "behaviour", "episodes", "score", "logged")
PENALTIES = (0.03, 0.1, 0.3, 1.0)  # c of VI-LCB, in units of the environment's largest reward
LEAST_VISITS = (5, 10, 20, 50)  # N∧ of SPIBB


@dataclass(frozen=True)
class LoggedProtocol:
    """How many logs of every environment there are, of how many episodes and of which policies."""

    seeds: int = 2
    episodes: tuple[int, ...] = (10, 32, 100, 316, 1_000, 3_162, 10_000)
    behaviours: tuple[float, ...] = (0.3, 0.6)  # how far from uniform random to optimal logged policies are


def variants(method: Method) -> list[Method]:
    """The method; ours also as safe as it can be asked to be, VI-LCB and SPIBB once for every setting."""
    if method.name == IN_CONTEXT:
        return [method, replace(method, options={"at_least": "logged"})]
    if method.name == "vi-lcb":
        return [replace(method, options={"penalty": penalty}) for penalty in PENALTIES]
    if method.name == "spibb":
        return [replace(method, options={"least_visits": least}) for least in LEAST_VISITS]
    return [method]


def cells(protocol: LoggedProtocol, methods: Sequence[Method], environments: Sequence[Environment]) -> list[Cell]:
    """Every variant of every method on every environment."""
    return cells_on(environments, [v for method in methods for v in variants(method)], protocol, measure)


def measure(protocol: LoggedProtocol, environment: Environment, method: Method) -> list[Row]:
    """One row per seed, behaviour and number of episodes, with the exact score of the policy and of the logged one.

    All methods see the same logs. Episodes end in terminal states and at the environment's horizon.
    """
    mdp = environment.build()
    scorer, source, rows = Scorer(mdp), LogSource(mdp), list[Row]()
    for behaviour in protocol.behaviours:
        policy = soft_policy(mdp, behaviour)
        for seed in range(protocol.seeds):
            for n in protocol.episodes:
                names = ("logged", environment.name, str(behaviour), seed, n)
                log = source.episodes(policy, n, environment.horizon, generator(*names))
                found = learned(mdp, method, log, seed_of(*names))
                row = {"seed": seed, "behaviour": behaviour, "episodes": n, "score": scorer(found)}
                rows.append({**row, "logged": scorer(policy)})
    return rows


def learned(mdp: TabularMDP, method: Method, log: Log, seed: int) -> Floats:
    """(S, A) the policy that a method makes of a log, which comes as sums: what `Agent.fit` makes of its rows."""
    if method.weights is None:
        options = dict(method.options)
        if "penalty" in options:
            options["penalty"] *= float(np.abs(mdp.outcome_reward).max())
        sizes = mdp.n_states, mdp.n_actions
        told = Options(discount=mdp.discount)
        problem = baseline_problem(method.name, *sizes, told, seed=seed, statistics=log.statistics, **options)
        return problem.learner.plan()
    agent = Agent(method.weights.load())
    encoding = SpaceEncoding.of(mdp.n_states, mdp.n_actions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # little data is what is measured
        told = Options(discount=mdp.discount, **method.options)
        agent._fitted(Logged(log.statistics, encoding, log.starts), told, seed, time.perf_counter(), None)
        return agent.plan().recommended
