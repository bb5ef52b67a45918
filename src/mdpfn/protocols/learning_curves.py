"""Greedy return against episodes in context, at several depths of the network (B.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from mdpfn.agents import Agent
from mdpfn.agents.policies import ActionSampler, greedy
from mdpfn.arrays import Floats
from mdpfn.environments import ENVIRONMENTS, Simulator
from mdpfn.exact import optimal_q
from mdpfn.mdp import TabularMDP
from mdpfn.protocols.methods import IN_CONTEXT, Method, StoredPlanner
from mdpfn.protocols.parallel import generator, measure_cells
from mdpfn.protocols.results import Cell, ResultsFile, Row
from mdpfn.protocols.rollouts import mean_return, plans, run_episode

IDENTITY = ("environment", "method", "weights", "depth")
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


def run(protocol: LearningCurveProtocol, planner: StoredPlanner, path: Path, *, command: str, workers: int) -> None:
    """Measure the in-context agent at every depth into the CSV file at `path`."""
    options = {"acting_temperature": protocol.acting_temperature}
    methods = [Method(IN_CONTEXT, options, planner, depth) for depth in protocol.depths]
    cells = [
        Cell(
            identity=(environment, *method.identity),
            settings=protocol,
            weights_hash=method.weights_hash,
            measure=partial(measure, protocol, environment, method),
        )
        for method in methods
        for environment in protocol.environments
    ]
    measure_cells(cells, ResultsFile(path, IDENTITY, MEASURED, command), workers=workers, title="learning curves")


def measure(protocol: LearningCurveProtocol, environment: str, method: Method) -> list[Row]:
    """One row per seed and probed episode, with its greedy return and score.

    The episodes 1, 2, 4, … are greedy probes, all others explore. The score of probe n is
    (R − R_random) / (R_optimal − R_random), with what was learned in the n − 1 episodes before it.
    """
    mdp = ENVIRONMENTS[environment].build()
    random_return, optimal_return = reference_returns(protocol, environment, mdp)
    rngs = [generator("learning curves", environment, seed) for seed in range(protocol.seeds)]
    simulators = [Simulator(mdp, rng) for rng in rngs]
    make = method.maker(mdp)
    agents = [make(rng=rng) for rng in rngs]
    rows: list[list[Row]] = [[] for _ in rngs]
    for episode in range(1, protocol.episodes + 1):
        is_probe = episode & (episode - 1) == 0
        policies = plans(agents)
        for seed, (agent, simulator) in enumerate(zip(agents, simulators, strict=True)):
            if is_probe:
                greedy_return = _probe(protocol, agent, simulator, mdp, policies[seed])
                score = (greedy_return - random_return) / (optimal_return - random_return)
                rows[seed].append({"seed": seed, "episodes": episode, "return": greedy_return, "score": score})
            else:
                run_episode(agent, simulator, protocol.horizon, terminal_ends=False)
    return [row for of_seed in rows for row in of_seed]


def reference_returns(protocol: LearningCurveProtocol, environment: str, mdp: TabularMDP) -> tuple[float, float]:
    """R_random and R_optimal: mean returns of the uniform and of the optimal policy, by the same rollouts."""
    simulator = Simulator(mdp, generator("learning curves", environment, "references"))
    uniform, optimal = np.full(mdp.reward.shape, 1 / mdp.n_actions), greedy(optimal_q(mdp))
    horizon, episodes = protocol.horizon, protocol.reference_episodes
    return mean_return(uniform, simulator, horizon, episodes), mean_return(optimal, simulator, horizon, episodes)


def _probe(
    protocol: LearningCurveProtocol, agent: Agent, simulator: Simulator, mdp: TabularMDP, policy: Floats
) -> float:
    """The mean return of greedy episodes, of which the agent observes the first."""
    act = ActionSampler(policy, simulator.rng)
    observed = run_episode(agent, simulator, protocol.horizon, terminal_ends=False, act=act)
    if mdp.transition.data.min() == 1.0 and policy.max(axis=1).min() == 1.0:  # nothing is left to chance
        return observed
    others = protocol.greedy_rollouts - 1
    unobserved = mean_return(policy, simulator, protocol.horizon, others)
    return (observed + others * unobserved) / (1 + others)
