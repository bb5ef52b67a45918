"""Episodes until the greedy policy is near-optimal and stays so (B.3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mdpfn.bench.environments import ENVIRONMENTS, Environment, TabularEnv
from mdpfn.bench.protocols.leaderboard import cells_on
from mdpfn.bench.protocols.methods import IN_CONTEXT, Method, StoredWeights
from mdpfn.bench.protocols.results import Cell, Row
from mdpfn.model.exact import Scorer
from mdpfn.online.history import History

MEASURED = ("seed", "episodes")


@dataclass(frozen=True)
class ConvergenceProtocol:
    """The settings of B.3."""

    environments: tuple[str, ...] = ("gridworld-5x5", "frozen-lake", "gridworld-3x3")
    seeds: int = 12
    first_seed: int = 0
    max_episodes: int = 1500
    agent_max_episodes: int = 150
    horizon: int = 50
    threshold: float = 0.95
    window: int = 8
    depth: int = 24
    acting_temperature: float = 1.0
    ucbvi_bonus: float = 1.0
    q_learning_epsilon: float = 0.1

    def methods(self, weights: StoredWeights) -> list[Method]:
        """The baselines, slowest first, and the agent as it is shipped and as the paper has it.

        The paper's way: the network's own softmax policy acts, at the temperature of the paper; at the depth that the
        network was made for, and at the paper's.
        """
        softmax = {"exploration": "softmax", "acting_temperature": self.acting_temperature}
        ways: tuple[dict[str, Any], ...] = ({}, softmax, {"depth": self.depth, **softmax})
        return [
            Method("q-learning", {"epsilon": self.q_learning_epsilon}),
            Method("ucbvi", {"bonus": self.ucbvi_bonus}),
            *(Method(IN_CONTEXT, options, weights) for options in ways),
        ]


def cells(protocol: ConvergenceProtocol, weights: StoredWeights) -> list[Cell]:
    """The baselines, and the agent with these weights."""
    environments = [ENVIRONMENTS[name] for name in protocol.environments]
    return cells_on(environments, protocol.methods(weights), protocol, measure)


def measure(protocol: ConvergenceProtocol, environment: Environment, method: Method) -> list[Row]:
    """One row per seed with the first episode of the window in which it converged, if it did.

    Every method is scored by what it plans from the data before an episode. (The paper scores Q-learning after it,
    which reads one episode less.) As in the paper, the baselines are told the true range of rewards.
    """
    mdp = environment.build()
    scorer = Scorer(mdp)
    told = {} if method.weights else {"reward_range": (float(mdp.reward.min()), float(mdp.reward.max()))}
    most = protocol.agent_max_episodes if method.weights else protocol.max_episodes
    rows: list[Row] = []
    for seed in range(protocol.first_seed, protocol.first_seed + protocol.seeds):
        contestant = method.start(mdp, seed, **told)
        scores = [scorer(contestant.policy())]

        def goes_on(history: History) -> bool:
            scores.append(scorer(contestant.policy()))  # noqa: B023
            return window_start(scores, protocol.threshold, protocol.window) is None  # noqa: B023

        contestant.solve(TabularEnv(mdp, horizon=protocol.horizon, terminates=False), most, goes_on)
        rows.append({"seed": seed, "episodes": window_start(scores, protocol.threshold, protocol.window)})
    return rows


def window_start(scores: Sequence[float], threshold: float, window: int) -> int | None:
    """The first episode, counted from 1, of the last `window` scores if all of them reach `threshold`."""
    last = scores[-window:]
    return len(scores) - window + 1 if len(last) == window and min(last) >= threshold else None
