"""The contestants of a protocol: the agent through its public methods, or a baseline through the same loop."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

from mdpfn.agent import Agent
from mdpfn.arrays import Floats
from mdpfn.baselines.problem import baseline_problem
from mdpfn.coverage import CoverageWarning
from mdpfn.evidence import Statistics, Transition
from mdpfn.evidence.pooling import PoolingConfig
from mdpfn.exploration.earning import EarningConfig
from mdpfn.model.mdp import TabularMDP
from mdpfn.online.options import Options
from mdpfn.online.problem import OnEpisode
from mdpfn.planners.classical import PlannerConfig
from mdpfn.planners.policies import one_hot
from mdpfn.prior.world import WorldConfig
from mdpfn.training.config import from_dict
from mdpfn.weights import Model, load_model

IN_CONTEXT = "in-context"
HASH_DIGITS = 12  # of the hash of the weights, in result files


@dataclass(frozen=True)
class StoredWeights:
    """Weights by their path, which is sent to worker processes in place of the network."""

    name: str
    weights_hash: str
    path: str
    world: WorldConfig | None = None  # the prior over worlds that they were trained on; None: the paper's prior

    def load(self) -> Model:
        """The model, read once in every process."""
        return _load(self.path)


def stored_weights(weights: str) -> StoredWeights:
    """The weights with this name, if they are shipped, or in this file."""
    model = load_model(weights)
    world = None if model.prior is None else from_dict(WorldConfig, model.prior)
    return StoredWeights(model.name, str(model.card["sha256"])[:HASH_DIGITS], weights, world)


@lru_cache(maxsize=2)
def _load(path: str) -> Model:
    return load_model(path)


@dataclass(frozen=True)
class Method:
    """A contestant: its name in result files, its options, and the weights if it is our agent.

    Without options our agent is as shipped.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    weights: StoredWeights | None = None

    @property
    def identity(self) -> tuple[str, str, str]:
        """Name, weights and options: the columns that tell methods apart in result files."""
        options = ", ".join(f"{name} = {value}" for name, value in self.options.items())
        return self.name, self.weights.name if self.weights else "", options

    @property
    def weights_hash(self) -> str:
        """The hash of the weights, empty where there are none."""
        return self.weights.weights_hash if self.weights else ""

    @property
    def constants(self) -> tuple[object, ...]:
        """The constants of explorer and planners that its results depend on."""
        return (EarningConfig(), PoolingConfig(), PlannerConfig()) if self.weights else ()

    def start(self, mdp: TabularMDP, seed: int, **told: Any) -> AgentContestant | BaselineContestant:
        """A contestant for this MDP, which knows its sizes, its discount and the options of `reset` in `told`."""
        options = Options(discount=mdp.discount, **told)
        if self.weights is None:
            return BaselineContestant(self, mdp, options, seed)
        return AgentContestant(Agent(self.weights.load(), **self.options), mdp, options, seed)


class AgentContestant:
    """The agent, through `solve`, `fit` and `plan`: what `predict` returns is what is scored."""

    def __init__(self, agent: Agent, mdp: TabularMDP, options: Options, seed: int) -> None:
        self.agent, self.seed = agent, seed
        self.spaces = mdp.n_states, mdp.n_actions
        self.options: dict[str, Any] = asdict(options)
        agent.reset(*self.spaces, seed=seed, **self.options)

    def solve(self, env: Any, episodes: int, on_episode: OnEpisode | None = None) -> None:
        """Learn from episodes."""
        self.agent.solve(env, episodes, seed=self.seed, on_episode=on_episode, **self.options)

    def fit(self, transitions: Sequence[Transition]) -> None:
        """Learn from logged transitions instead."""
        columns = tuple(zip(*transitions, strict=True))
        states, actions = self.spaces
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoverageWarning)  # little data is what is measured
            self.agent.fit(columns, observation_space=states, action_space=actions, **self.options)

    def policy(self) -> Floats:
        """(S, A) the actions of `predict`."""
        return one_hot(self.agent.plan().greedy, self.spaces[1])


class BaselineContestant:
    """A baseline, set up as the agent is and driven by the same loop."""

    def __init__(self, method: Method, mdp: TabularMDP, options: Options, seed: int) -> None:
        self.method, self.options, self.seed = method, options, seed
        self.spaces = mdp.n_states, mdp.n_actions
        self._enter(None)

    def _enter(self, statistics: Statistics | None) -> None:
        name, settings = self.method.name, self.method.options
        self.problem = baseline_problem(
            name, *self.spaces, self.options, seed=self.seed, statistics=statistics, **settings
        )

    def solve(self, env: Any, episodes: int, on_episode: OnEpisode | None = None) -> None:
        """Learn from episodes."""
        self.problem.run(env, episodes, seed=self.seed, on_episode=on_episode)

    def fit(self, transitions: Sequence[Transition]) -> None:
        """Learn from logged transitions instead."""
        columns = zip(*(transition[:5] for transition in transitions), strict=True)
        n_states, n_actions = self.spaces
        self._enter(Statistics.from_transitions(*columns, n_states=n_states, n_actions=n_actions))

    def policy(self) -> Floats:
        """(S, A) the policy it exploits by."""
        return self.problem.learner.plan()
