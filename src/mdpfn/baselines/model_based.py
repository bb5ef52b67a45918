"""The base of learners that plan on the empirical model; they differ in how they explore."""

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints
from mdpfn.evidence import Novelty, Statistics, Transition
from mdpfn.model.empirical import Assumptions, EmpiricalModel
from mdpfn.online.learner import Learner
from mdpfn.planners.policies import best_actions, one_hot
from mdpfn.planners.problem_info import ProblemInfo

RELATIVE_TOLERANCE = 1e-6  # of the largest value that the rewards of a model allow
ACTING_SWEEPS = 80  # for the policy of one episode, starting where the last one ended, as the paper's baseline does


class ModelBasedLearner(Learner):
    """Fixes a deterministic policy when an episode starts; exploits the empirical model as if it were the truth."""

    def __init__(
        self, evidence: Statistics, info: ProblemInfo, rng: np.random.Generator, **settings: float | None
    ) -> None:
        super().__init__(evidence, info, rng, **settings)
        self._actions: list[int] | None = None  # of this episode
        self._values: dict[str, Floats] = {}  # V (S,) at the end of the last solution of each kind

    def choose_actions(self) -> Ints:
        """(S,) the action to take in each state until the policy is chosen anew: unless it explores, the greedy one."""
        return best_actions(self.empirical_q())

    def act(self, state: int) -> int:
        """The action of this episode's policy."""
        if self._actions is None:
            actions: list[int] = self.choose_actions().tolist()
            self._actions = actions
        return self._actions[state]

    def observe(self, transition: Transition) -> Novelty:
        """Learn from one transition; the end of an episode ends its policy."""
        if transition.ends_episode:
            self._actions = None
        return super().observe(transition)

    def plan(self) -> Floats:
        """(S, A) the greedy policy of the empirical model."""
        return one_hot(best_actions(self.empirical_q()), self.evidence.n_actions)

    def empirical_q(self) -> Floats:
        """(S, A) Q = r̂ + γ P̂ V of the empirical model."""
        return self.solve(EmpiricalModel.of(self.evidence.table()), "empirical")

    def solve(
        self,
        model: EmpiricalModel,
        kind: str,
        *,
        bonus: float | Floats = 0.0,
        unknown: Bools | None = None,
        unknown_value: float | None = None,
        limit: float = np.inf,
        max_sweeps: int | None = None,
    ) -> Floats:
        """(S, A) Q = clip(r̂ + bonus + γ P̂ V, ±limit) at its fixed point, V = max_a Q, from the last one of its kind.

        Pairs never visited, and `unknown` ones among the visited (visited,), have the `unknown_value`. Without one,
        pairs never visited pay 0 and lead anywhere with equal probability, as in the paper (B).
        """
        reward = (model.table.mean_reward + bonus) * model.goes_on
        discount = model.discount(self.info.discount)
        if unknown is not None and unknown_value is not None:
            unknown = unknown & model.goes_on
            reward, discount = np.where(unknown, unknown_value, reward), np.where(unknown, 0.0, discount)
        assumed = Assumptions(
            reward=reward[:, None],
            discount=discount[:, None],
            unvisited_reward=np.array([[unknown_value or 0.0]]),
            unvisited_discount=np.array([model.uniform_row(self.info.discount) * (unknown_value is None)]),
            may_try=np.array([True]),
        )
        largest = float(np.abs(reward).max(initial=0.0)) or 1.0
        before = self._values.get(kind, np.zeros(0))
        start = np.append(before, np.zeros(len(model.layout.active) + 2 + self.evidence.n_states - len(before)))
        swept = model.sweep(
            assumed,
            limit=limit,
            max_sweeps=max_sweeps,
            tolerance=RELATIVE_TOLERANCE * largest / max(self.discount, 1e-12),
            initial=np.append(start[model.layout.active], 0.0)[:, None],
        )
        q = model.q_table(swept.q[:, 0], swept.v[model.layout.n_active :, 0]).reshape(self.evidence.n_states, -1)
        self._values[kind] = q.max(axis=1)
        return q
