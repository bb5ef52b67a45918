"""Running the agent or a baseline in one world, a step at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdpfn.agent import Agent
from mdpfn.arrays import Ints
from mdpfn.baselines.problem import baseline_problem
from mdpfn.bench.environments.gymnasium_adapter import TabularEnv
from mdpfn.evidence import Transition
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.model.exact import policy_value
from mdpfn.model.mdp import TabularMDP
from mdpfn.online.options import Options
from mdpfn.online.problem import Problem
from mdpfn.planners.policies import one_hot

CERTAIN_VISITS = 3.0  # of what it would do next: there it counts as half sure


@dataclass
class Runner:
    """A problem with its environment, the path of the current episode, and the curve of policy values."""

    name: str
    problem: Problem[Any]
    env: TabularEnv
    greedy: Callable[[], Ints]  # (S,) what it would do now
    seed: int
    path: list[int] = field(default_factory=list)  # states of the latest episode
    worth: list[float] = field(default_factory=list)  # exact value of its policy at the start, after every episode
    _state: int | None = None  # None: the next step begins an episode

    @classmethod
    def of_agent(cls, agent: Agent, mdp: TabularMDP, horizon: int, budget: int, seed: int, **options: Any) -> Runner:
        """The agent, as `Agent.solve` would run it."""
        agent.reset(mdp.n_states, mdp.n_actions, budget=budget, seed=seed, discount=mdp.discount, **options)
        env = TabularEnv(mdp, horizon=horizon)
        return cls(agent.model.name, agent.problem, env, lambda: agent.plan().greedy, seed)

    @classmethod
    def of_baseline(cls, name: str, mdp: TabularMDP, horizon: int, seed: int) -> Runner:
        """A baseline, set up as the agent is."""
        problem = baseline_problem(name, mdp.n_states, mdp.n_actions, Options(discount=mdp.discount), seed=seed)
        greedy = lambda: problem.learner.plan().argmax(axis=1)  # noqa: E731 (it reads as the one above)
        return cls(name, problem, TabularEnv(mdp, horizon=horizon), greedy, seed)

    @property
    def episodes(self) -> int:
        """How many episodes were finished."""
        return len(self.problem.history.returns)

    def step(self) -> None:
        """One step, the first of an episode if none is under way."""
        if self._state is None:
            observation, _ = self.env.reset(seed=self.seed if not self.episodes else None)
            self._state = int(observation)
            self.path = [self._state]
        action = self.problem.act(self._state)
        observation, reward, terminated, truncated, _ = self.env.step(np.int64(action))
        reached = int(observation)
        self.problem.record(Transition(self._state, action, reward, reached, terminated, truncated))
        self.path.append(reached)
        self._state = None if terminated or truncated else reached
        if self._state is None:
            value = policy_value(self.env.mdp, self.greedy())
            self.worth.append(float(self.env.mdp.start @ value))

    def view(self) -> dict[str, Any]:
        """What a board shows: the path, the policy, its values, and how certain they are."""
        return {
            "name": self.name,
            "episodes": self.episodes,
            "path": self.path,
            "under_way": self._state is not None,
            "earned": np.cumsum(self.problem.history.returns).round(4).tolist(),
            "worth": np.round(self.worth, 5).tolist(),
            **knowledge(self.problem, self.greedy()),
        }


def knowledge(problem: Problem[Any], greedy: Ints) -> dict[str, Any]:
    """For every state: the greedy action, its value by the data, visits, and how certain it is."""
    table = problem.learner.evidence.table()
    model, visits = EmpiricalModel.of(table), table.visits_table()
    policy = one_hot(greedy, visits.shape[1])
    value = model.policy_value(policy, model.table.mean_reward, problem.options.discount)
    seen = np.asarray(visits.any(axis=1))
    seen[table.successor] = True
    tried = visits[np.arange(len(visits)), greedy]
    return {
        "greedy": greedy.tolist(),
        "value": value.round(4).tolist(),
        "visits": visits.sum(axis=1).astype(int).tolist(),
        "seen": seen.astype(int).tolist(),
        "sure": (tried / (tried + CERTAIN_VISITS)).round(3).tolist(),
    }
