"""What `Agent` inherits: a model, the problem it is learning now, plans and results for that problem."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.checks import check_choice
from mdpfn.errors import MdpfnError, shown
from mdpfn.evidence import Statistics
from mdpfn.evidence.factored.completion import Completion
from mdpfn.evidence.smoothed import SmoothedEvidence
from mdpfn.online.env_adapters import GO_ON
from mdpfn.online.history import History
from mdpfn.online.in_context import Exploration, InContextLearner
from mdpfn.online.options import AtLeast, Options
from mdpfn.online.problem import Problem, agent_rng
from mdpfn.online.vector_problem import VECTOR_DISCOUNT, VectorProblem
from mdpfn.plan import Plan, check_level
from mdpfn.planners.problem_info import DEFAULT_DISCOUNT, RewardRange
from mdpfn.result import Result
from mdpfn.safe import with_safe_policy
from mdpfn.spaces.encoding import SpaceEncoding
from mdpfn.spaces.features import StateFactors
from mdpfn.vectors.result import VectorResult
from mdpfn.weights import Model
from mdpfn.weights.limits import Limits
from mdpfn.weights.planner import NetworkPlanner

if TYPE_CHECKING:
    from mdpfn.data.log import Logged
    from mdpfn.data.vectors import VectorReader


class BaseAgent:
    """A model and the problem it is learning, if there is one. `Agent` adds the calls that users make."""

    def __init__(
        self,
        model: Model,
        *,
        depth: int | None = None,
        exploration: Exploration | None = None,
        acting_temperature: float = 0.3,
    ) -> None:
        if exploration is not None:
            remedy = "leave it out for the one of the weights"
            check_choice("exploration", exploration, get_args(Exploration), remedy)
        if not isinstance(acting_temperature, int | float | np.number) or not 0 < acting_temperature < np.inf:
            limit = "it must be positive and finite"
            raise MdpfnError("acting_temperature", shown(acting_temperature), limit, "use a value such as 0.3")
        self.model, self.acting_temperature = model, float(acting_temperature)
        self.exploration: Exploration = exploration or model.exploration
        self.limits = Limits.of(model)
        self._planner = NetworkPlanner(model.network, self.limits.checked_depth(depth), self.limits)
        self._problem: Problem[InContextLearner] | VectorProblem | None = None
        self._plan: Plan | None = None  # the latest one
        self._evaluation: Floats = np.zeros(0)  # returns of the final policy of the last run

    def __repr__(self) -> str:
        knows = "no problem yet" if self._problem is None else f"{self.num_timesteps} transitions"
        return f"{type(self).__name__}({self.model.name!r}, {knows})"

    @property
    def problem(self) -> Problem[InContextLearner] | VectorProblem:
        """The problem that the agent is learning."""
        if self._problem is None:
            limit = "it knows no problem yet"
            raise MdpfnError("the agent", "new", limit, "call reset, solve or fit first, or give plan() statistics")
        return self._problem

    @property
    def _tabular(self) -> Problem[InContextLearner]:
        """The problem that the agent is learning; refused if its states are vectors."""
        problem = self.problem
        if isinstance(problem, VectorProblem):
            limit = "with vectors for observations there is no table of states"
            raise MdpfnError("a plan for every state", "asked for", limit, "use predict and agent.evidence")
        return problem

    @property
    def statistics(self) -> Statistics:
        """Counts of all transitions observed in this problem."""
        return self._tabular.learner.evidence

    @property
    def evidence(self) -> Statistics | SmoothedEvidence:
        """Everything observed in this problem: counts of transitions, or the transitions themselves for vectors."""
        return self.problem.learner.evidence

    @property
    def num_timesteps(self) -> int:
        """How many transitions were observed so far, under the name that Stable-Baselines3 uses."""
        return self.evidence.n_transitions

    def plan(
        self,
        statistics: Statistics | None = None,
        *,
        depth: int | None = None,
        risk: float | None = None,
        discount: float | None = None,
        reward_range: RewardRange | None = None,
        at_least: AtLeast | None = None,
        confidence: float | None = None,
    ) -> Plan:
        """A policy for every state, from everything observed so far or from the given `statistics`.

        With `risk`, actions whose logits are close are ranked by the quantile of Q* at that level
        (`plan.q_quantiles`): a low level avoids uncertain actions, a high level seeks them.
        `discount`, `reward_range`, `at_least` and `confidence` are for given `statistics` only; for what the agent
        observed itself, `reset`, `solve` or `fit` set them.
        """
        planner = self._planner if depth is None else replace(self._planner, depth=self.limits.checked_depth(depth))
        given = {"discount": discount, "reward_range": reward_range, "at_least": at_least, "confidence": confidence}
        if statistics is not None:
            if not isinstance(statistics, Statistics):
                limit = "it must be mdpfn.Statistics"
                raise MdpfnError("statistics", shown(statistics), limit, "use Statistics.from_counts, or fit for data")
            options = self._options({"risk": risk, **given})
            if statistics.n_transitions:
                options.check_rewards(statistics.reward_min, statistics.reward_max)
            self.limits.warn_of_discount(options.discount)
            return self._plan_of(self._learner(statistics, options, None), planner, options, None)
        for field, value in given.items():
            if value is not None:
                limit = "the problem at hand has its own: this one is for statistics"
                raise MdpfnError(field, shown(value), limit, "give it to reset, solve or fit")
        problem = self._tabular
        options = problem.options if risk is None else replace(problem.options, risk=self._options({"risk": risk}).risk)
        with problem.turn():
            if depth is not None:
                return self._plan_of(problem.learner, planner, options, problem.encoding)
            plan, logits = self._plan, problem.learner.planner_output().policy_logits
            if plan is None or plan.policy_logits is not logits or plan.risk != options.risk:
                self._plan = plan = self._plan_of(problem.learner, planner, options, problem.encoding)
            return plan

    def _plan_of(
        self, learner: InContextLearner, planner: NetworkPlanner, options: Options, encoding: SpaceEncoding | None
    ) -> Plan:
        """The plan that a planner makes of everything observed, with a safe policy if the options ask for one."""
        table = learner.table()
        output = learner.planner_output() if planner is self._planner else learner.ask(planner)
        evidence = learner.evidence
        seen = (evidence.reward_min, evidence.reward_max) if evidence.n_transitions else (-np.inf, np.inf)
        plan = Plan(
            output.policy_logits,
            output.q_quantiles,
            self.model.network.config.quantiles,
            options.risk,
            output.unknown,
            planned_from=(table, learner.info),
            observed=evidence.table(),
            rewards=options.reward_range or seen,
            encoding=encoding,
        )
        return with_safe_policy(plan, options)

    @property
    def result(self) -> Result:
        """Returns, policy, values and coverage of everything so far."""
        with self.problem.turn():
            if isinstance(self.problem, VectorProblem):
                return VectorResult(self.problem, self._evaluation, self.model.name)
            return Result.of(self._tabular, self.plan(), self._evaluation, self.model.name)

    def _options(self, given: Mapping[str, Any], *, vectors: bool = False) -> Options:
        """The options, checked; a risk level that these weights have no quantile for is refused."""
        options = Options.of(given, discount=VECTOR_DISCOUNT if vectors else DEFAULT_DISCOUNT)
        if vectors and options.at_least is not None:
            limit = "states that are vectors have no table of what was done"
            raise MdpfnError("at_least", shown(options.at_least), limit, "leave it out, or cut states into bins")
        if options.risk is not None:
            check_level("risk", options.risk, self.model.network.config.quantiles)
        return options

    def _start(
        self, encoding: SpaceEncoding, statistics: Statistics, options: Options, seed: int | None, features: Any = None
    ) -> Problem[InContextLearner]:
        """Start a problem with the statistics known so far, and return it."""
        self.limits.check_sizes(statistics.n_states, statistics.n_actions)
        self.limits.warn_of_discount(options.discount)
        learner = self._learner(statistics, options, seed)
        factors = StateFactors.of(encoding.states, features)
        learner.completion = None if factors is None else Completion(factors)
        problem = Problem(encoding, learner, options, self.limits, History(options.discount))
        self._set_problem(problem)
        return problem

    def _set_problem(self, problem: Problem[InContextLearner] | VectorProblem) -> None:
        """Make this the problem of the agent, in the place of the one before."""
        if self._problem is not None:
            self._problem.refuse_others()
        self._problem, self._plan, self._evaluation = problem, None, np.zeros(0)

    def _learner(self, statistics: Statistics, options: Options, seed: int | None) -> InContextLearner:
        return InContextLearner(
            statistics,
            options.info,
            agent_rng(seed),
            planner=self._planner,
            exploration=self.exploration,
            acting_temperature=self.acting_temperature,
            replan_every=options.replan_every,
            objective=options.objective,
            explore=options.explore,
        )

    def _fitted(
        self, logged: Logged | VectorReader, options: Options, seed: int | None, started: float, features: Any
    ) -> None:
        """Start the problem of a log; if anything is raised, the agent is as before."""
        from mdpfn.data.vectors import VectorReader

        with self._all_or_nothing(keep_learned=False):
            if isinstance(logged, VectorReader):
                fitted = VectorProblem.fresh(*logged.spaces, options, self.limits, seed)
                logged.read_into(fitted)
                fitted.history.seconds = time.perf_counter() - started
                self._set_problem(fitted)
                return
            options.check_rewards(logged.statistics.reward_min, logged.statistics.reward_max)
            problem = self._start(logged.encoding, logged.statistics, options, seed, features)
            problem.history.start_states, problem.starts_known = logged.starts or Counter(), logged.starts is not None
            problem.columns, problem.notes = logged.columns, logged.notes
            problem.history.seconds = time.perf_counter() - started
            self.result.coverage.warn()

    @property
    def _logged(self) -> Logged:
        """This problem in the form in which logs are read, so that it can be merged with one."""
        from mdpfn.data.log import Logged

        problem = self._tabular
        starts = Counter(problem.history.start_states) if problem.starts_known else None
        return Logged(problem.learner.evidence, problem.encoding, starts, problem.columns, problem.notes)

    @contextmanager
    def _all_or_nothing(self, *, keep_learned: bool = True) -> Iterator[None]:
        """Put the agent back if anything is raised; with `keep_learned`, only if it had learned nothing by then."""
        problem, before = self._problem, (self._problem, self._plan, self._evaluation)
        n_known, begun = (
            (0, None) if problem is None else (problem.learner.evidence.n_transitions, problem.before_run())
        )
        try:
            yield
        except BaseException as error:
            now = self._problem
            learned = 0 if now is None else now.learner.evidence.n_transitions - (n_known if now is problem else 0)
            if not (learned and keep_learned):
                if begun is not None:
                    begun.restore()
                self._problem, self._plan, self._evaluation = before
                if isinstance(error, MdpfnError) and error.remedy == GO_ON:
                    remedy = "mend it and call solve again: nothing was observed yet"
                    raise MdpfnError(error.field, error.value, error.limit, remedy) from error.__cause__
            raise
