"""The agent, which learns from an environment or from data and returns a policy. No training, no tuning."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, get_args

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.base_agent import BaseAgent
from mdpfn.checks import a_path, check_choice, check_flag, whole_number
from mdpfn.data.columns import as_observations
from mdpfn.data.options import LogFields, LogOptions
from mdpfn.errors import MdpfnError, shown
from mdpfn.evidence import Statistics
from mdpfn.explanation import Explanation
from mdpfn.export import policy_to_json
from mdpfn.online.callback import CallbackLike
from mdpfn.online.env_adapters import made_env, spaces_of
from mdpfn.online.evaluation import evaluate
from mdpfn.online.monitor import RunMonitor
from mdpfn.online.options import OptionFields
from mdpfn.online.problem import OnEpisode
from mdpfn.online.vector_problem import VectorProblem
from mdpfn.persistence.agent_file import read_agent, write_agent
from mdpfn.persistence.saved_problem import refusing_damage
from mdpfn.plan import OnUnknown
from mdpfn.report.page import write_report
from mdpfn.result import Result
from mdpfn.spaces.encoding import SpaceEncoding
from mdpfn.spaces.features import check_features
from mdpfn.spaces.squashed import SquashedGaussian
from mdpfn.spaces.vectors import is_vector_space
from mdpfn.storage import write_json
from mdpfn.vectors.explanation import VectorExplanation
from mdpfn.weights import DEFAULT_WEIGHTS, load_model
from mdpfn.worth import PolicyLike, PolicyValue

if TYPE_CHECKING:
    from mdpfn.data.log import Logged
    from mdpfn.data.vectors import VectorReader


class FitFields(OptionFields, LogFields):
    """The options of `Agent.fit`."""


class PartialFitFields(FitFields, total=False):
    """Everything that `Agent.partial_fit` takes by name."""

    observation_space: Any
    action_space: Any
    seed: int | None


class Agent(BaseAgent):
    """Solves small decision problems in context: its weights stay fixed, all it learns is kept in `evidence`.

    There are three ways to learn: `solve` an environment, call `reset` and then `act` and `observe` in a loop of your
    own, or `fit` logged data. Each of them starts a new problem, but for `solve(resume=True)`. Afterwards, `predict` or
    `plan`.

    `depth` is how many propagation steps the network takes, by default as many as in training. `exploration` is
    "directed", which explores where information is worth its price, or "softmax", which draws actions from
    softmax(logits / τ) with τ = `acting_temperature`, as in the paper (B.2). The default is the one of the weights.
    """

    @classmethod
    def from_pretrained(cls, weights: str | Path = DEFAULT_WEIGHTS, **options: Any) -> Agent:
        """An agent with the weights of a shipped model, by name, or of a model file. Never downloads."""
        return cls(load_model(weights), **options)

    def reset(
        self,
        observation_space: Any,
        action_space: Any,
        *,
        budget: int | None = None,
        seed: int | None = None,
        **options: Unpack[OptionFields],
    ) -> Agent:
        """Start a new problem and forget the one before.

        Spaces are finite Gymnasium spaces. A number n stands for Discrete(n), a list for the names in it, and
        None for any hashable observations, which are numbered as they appear. Observations may
        also be vectors (a Box, or a Dict or Tuple with one in it); then actions may be a Box too.
        `budget` is how many episodes there will be; without it, the agent expects as many more as there were so far.
        `seed` makes the agent's choices repeatable. The options are:

        - `discount`: how much a reward is worth one step later, 0.95 by default, 0.99 for vectors;
        - `reward_range`: the smallest and largest possible reward; without it, rewards are scaled by the largest one
          observed;
        - `replan_every`: plan again after that many steps, and not only when an episode starts or something was new;
        - `risk`: among actions that are almost equally good, choose by this quantile of Q*;
        - `objective`: "return" if what is earned while learning counts, "policy" if only the final policy does (no
          difference for vectors);
        - `explore`: False to always exploit;
        - `features`: what every discrete state is made of, a tuple or vector each: a function of the state, or a table.
          The parts of MultiDiscrete, MultiBinary, Tuple and Dict spaces are factors by themselves;
        - `at_least`: "logged" for a policy that is worse than that of the data with a probability of at most
          1 − `confidence`, which is 0.95 by default: it keeps to what was done where the data says too little.
        """
        vectors = is_vector_space(observation_space)
        features = _features_of(options, vectors=vectors)
        checked = self._options(options, vectors=vectors)
        if budget is not None:
            whole_number("budget", budget, low=1)
        if vectors:
            self._set_problem(VectorProblem.fresh(observation_space, action_space, checked, self.limits, seed))
        else:
            largest = self.limits.states, self.limits.actions
            encoding = SpaceEncoding.of(observation_space, action_space, largest=largest)
            if encoding.actions.n == 0:
                limit = f"it must be finite and have at most {self.limits.actions} actions (agent.limits)"
                raise MdpfnError("the action space", action_space, limit, "give a smaller space")
            check_features(features, encoding.states.n)
            no_data = Statistics(max(encoding.states.n, 1), encoding.actions.n)
            self._start(encoding, no_data, checked, seed, features)
        self.problem.learner.clock.budget = budget
        return self

    def act(self, observation: Any, *, action_mask: Any = None) -> Any:
        """The action to take now, exploring; with a mask, one of the actions that it allows.

        Plans again by itself when an episode has ended or something new was observed.
        """
        problem = self.problem
        return problem.encoding.actions.decode(problem.act_on(observation, action_mask))

    def observe(
        self,
        observation: Any,
        action: Any,
        reward: float,
        next_observation: Any,
        *,
        terminated: bool,
        truncated: bool = False,
        action_mask: Any = None,
    ) -> None:
        """Learn from one transition.

        `terminated` says that no reward follows `next_observation`, `truncated` that the episode was cut off there
        for another reason, such as a time limit. `action_mask` says which actions exist in `next_observation`.
        """
        self.problem.observe(observation, action, reward, next_observation, terminated, truncated, action_mask)

    def solve(
        self,
        env: Any,
        episodes: int = 100,
        *,
        seed: int | None = None,
        max_episode_steps: int | None = None,
        evaluate: int = 0,
        resume: bool = False,
        on_episode: OnEpisode | None = None,
        callback: CallbackLike = None,
        progress: bool | None = None,
        verbose: int = 1,
        **options: Unpack[OptionFields],
    ) -> Result:
        """Learn a Gymnasium environment (single, vector, or by its id) in this many episodes.

        The options are those of `reset`. Episodes are truncated after `max_episode_steps`, by default after 1000 where
        a single environment has no time limit of its own. `evaluate` is in how many more episodes the final policy is
        tried out, without learning. `resume` continues with what the agent knows of this environment and with
        the options it began with. `on_episode` is called after every episode with the `History` so far; the run ends
        if it returns False. `callback` is an `mdpfn.Callback`, or one of Stable-Baselines3, for every step. `progress`
        shows a progress line after two seconds, by default in terminals and notebooks; `verbose=0` silences it.
        """
        whole_number("episodes", episodes, low=1)
        whole_number("evaluate", evaluate, low=0)
        if max_episode_steps is not None:
            whole_number("max_episode_steps", max_episode_steps, low=1)
        seed = None if seed is None else whole_number("seed", seed, low=0)
        check_flag("resume", resume, "use True to go on")
        if "budget" in options:
            raise MdpfnError("budget", "given", "the budget of solve is its episodes", "use episodes")
        env = made_env(env)
        spaces = spaces_of(env)
        with self._all_or_nothing():
            if resume:
                self._check_resumed(env, spaces, options)
            else:
                self.reset(*spaces, seed=seed, **options)
            monitor = RunMonitor(self, episodes, callback, on_episode, shown=progress if verbose else False)
            self.problem.learner.begin(episodes)
            with monitor:
                self.problem.run(env, episodes, seed=seed, max_episode_steps=max_episode_steps, **monitor.hooks)
        self._evaluation = self._evaluated(env, evaluate, seed, max_episode_steps) if evaluate else np.zeros(0)
        return self.result

    def _check_resumed(self, env: Any, spaces: tuple[Any, Any], given: Mapping[str, Any]) -> None:
        """Refuse to resume in an environment with other spaces, or with other options."""
        problem, features = self.problem, given.get("features")
        if features is not None and features is not getattr(problem, "features", None):
            limit = "the agent goes on with those it began with"
            raise MdpfnError("features", shown(features), limit, "leave them out when resuming, or start afresh")
        given = {name: value for name, value in given.items() if value is not None and name != "features"}
        if self._options({**asdict(problem.options), **given}) != problem.options:
            limit = f"the agent began with {problem.options}"
            raise MdpfnError("the options", given, limit, "leave them out when resuming, or start afresh")
        known = problem.encoding.observation_space, problem.encoding.action_space
        if known != spaces:
            limit = f"the agent knows {known[0]} and {known[1]}"
            raise MdpfnError("env", shown(env), limit, "resume with the same spaces, or start afresh without resume")

    def _evaluated(self, env: Any, episodes: int, seed: int | None, max_episode_steps: int | None) -> Floats:
        """(episodes,) returns of the final policy."""
        problem = self.problem
        return evaluate(
            problem.best_action if isinstance(problem, VectorProblem) else self.plan().action,
            env,
            problem.encoding,
            episodes,
            seed=None if seed is None else seed + 1,
            max_episode_steps=max_episode_steps,
        )

    def fit(
        self,
        transitions: Any,
        *,
        observation_space: Any = None,
        action_space: Any = None,
        seed: int | None = None,
        **options: Unpack[FitFields],
    ) -> Agent:
        """Learn from logged transitions; no environment is needed.

        They may come as arrays (states, actions, rewards, next_states[, terminated[, truncated]]) or a list of such
        tuples, a mapping of columns, a frame of pandas, polars, PyArrow, DuckDB, Ibis, Dask or PySpark, CSV, JSON
        lines or Parquet files (one, a list, a pattern, a folder), a Minari dataset, or an iterator over any of these.
        Frames are aggregated by their own engine, and only sums are fetched. Without spaces, whole numbers are ids,
        rows of floats are vectors, and everything else is a name. `result` reports what was used and what was left
        out, and `result.coverage` where the data is thin. The options are those of `reset`, and these about the log:

        - `columns`: which column is which, if their names do not tell: {"state": …, "action": …, "reward": …,
          "next_state": …, "terminated": …, "truncated": …}. Several columns may make one state. Without a next state,
          it is the next row of the same "episode" by "time". "count" says how many transitions a row stands for;
        - `episode_end`: "terminal" if no reward follows the last row of an episode, "truncated" if the log was cut off
          there;
        - `max_gap`: a longer time than this between two rows splits an episode;
        - `missing`: "raise" to refuse rows in which something is missing, "drop" to leave them out;
        - `bins`: how many bins columns of floats are cut into, or {column: number of bins, or their edges};
        - `terminal`: states in which episodes end, if no column says so;
        - `available`: {state: actions that exist there}, or a function of the state; elsewhere all exist.
        """
        from mdpfn.data.log import read_log  # late: what speaks to engines takes its time to import
        from mdpfn.data.vectors import VectorReader

        started = time.perf_counter()
        log, given = LogOptions.of(options)
        logged = read_log(transitions, (observation_space, action_space), self.limits, log)
        vectors = isinstance(logged, VectorReader)
        features = _features_of(given, vectors=vectors)
        if not isinstance(logged, VectorReader):
            check_features(features, logged.encoding.states.n)
        self._fitted(logged, self._options(given, vectors=vectors), seed, started, features)
        return self

    def partial_fit(self, transitions: Any, **options: Unpack[PartialFitFields]) -> Agent:
        """Learn from one more log, or from all that another agent observed, in addition to what is known already.

        States and actions are matched by name. The order in which logs are added makes no difference, not even in the
        last bit. Takes what `fit` takes: options of the agent that are left out stay as they were, and those about the
        log are of this one.
        """
        if self._problem is None and not isinstance(transitions, Agent):
            return self.fit(transitions, **options)
        from mdpfn.data.log import read_log
        from mdpfn.data.merging import merged
        from mdpfn.data.vectors import VectorReader

        started, seed = time.perf_counter(), options.pop("seed", None)
        spaces = options.pop("observation_space", None), options.pop("action_space", None)
        log, given = LogOptions.of(options)
        if isinstance(transitions, Agent):
            more: Logged | VectorReader = transitions._logged
            before = asdict((self if self._problem is not None else transitions).problem.options)
        else:
            more = read_log(transitions, spaces, self.limits, log)
            before = asdict(self.problem.options)
        if isinstance(more, VectorReader):
            raise MdpfnError("the states", "vectors", "these are not learned piece by piece", "fit all rows at once")
        features = given_features = _features_of(given)
        if features is None and self._problem is not None:
            features = self._tabular.features
        checked = self._options(before | {name: value for name, value in given.items() if value is not None})
        whole = more if self._problem is None else merged(self._logged, more)
        check_features(given_features, whole.encoding.states.n)
        self._fitted(whole, checked, seed, started, features)
        return self

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        *,
        action_mask: Any = None,
        on_unknown: OnUnknown = "warn",
    ) -> tuple[Any, Any]:
        """(action, state) for one observation, or actions for a batch of them, as in Stable-Baselines3.

        A batch may be an array, a list, or a column or frame of pandas or polars with the columns of the log.

        The best action given everything observed so far, or with `deterministic=False` one drawn from the policy.
        `state` and `episode_start` are there for compatibility; the agent ignores them and returns `state`.
        `action_mask` says which actions exist if some do not: one mask, or one per observation.
        `on_unknown` says what to do in a state that was never observed: "warn", "raise", or silently answer from the
        prior ("best").
        """
        check_choice("on_unknown", on_unknown, get_args(OnUnknown))
        check_flag("deterministic", deterministic, "use True for the best action")
        problem = self.problem
        observation = as_observations(observation, problem.columns)
        with problem.turn():
            if isinstance(problem, VectorProblem):
                return problem.predict(observation, action_mask, deterministic=deterministic), state
            rng = None if deterministic else problem.learner.rng
            return self.plan().predict(observation, action_mask, rng, on_unknown), state

    def action_distribution(self, observation: Any) -> SquashedGaussian | Floats:
        """What `predict(deterministic=False)` draws from: a squashed Gaussian over a Box, else probabilities (A,)."""
        problem = self.problem
        if isinstance(problem, VectorProblem):
            return problem.action_distribution(observation)
        with problem.turn():
            return self.plan().policy_of(problem.encoding.find(observation))

    def explain(self, observation: Any) -> Explanation | VectorExplanation:
        """Why an action is recommended: what was observed of every action, intervals of Q*, what could change it."""
        problem = self.problem
        with problem.turn():
            if isinstance(problem, VectorProblem):
                return VectorExplanation.of(problem, observation)
            state = problem.encoding.find(observation)
            return Explanation.of(self.plan(), self.result.coverage, state, observation)

    def evaluate(self, policy: PolicyLike, *, episodes: Any = None) -> PolicyValue:
        """The value of any policy, estimated from the data: mean, interval, effective sample size, main risks.

        A policy is a table (S, A) or (S,), a mapping or a function from states to actions, a `Plan`, or "logged" for
        the policy that made the data. `episodes`, lists of (state, action, reward[, propensity]), add an estimate by
        importance weights.
        """
        return self.result.evaluate(policy, episodes)

    def report(self, path: str | Path, *, title: str = "What the data says to do") -> None:
        """Write a self-contained HTML page with the policy, its value, where data is thin and what was read."""
        write_report(Result.of(self._tabular, self.plan(), self._evaluation, self.model.name), path, title)

    def save(self, path: str | Path, *, copy_weights: bool = False) -> None:
        """Write the agent to a file: evidence, names of states and actions, options, and the state of its run.

        Shipped weights are saved by name and checksum, others are copied; `copy_weights` always copies them.
        """
        settings: dict[str, Any] = {
            "depth": self._planner.depth,
            "exploration": self.exploration,
            "acting_temperature": self.acting_temperature,
        }
        with nullcontext() if self._problem is None else self._problem.turn():
            write_agent(a_path(path), self.model, settings, self._problem, copy_weights=copy_weights)

    def export(self, path: str | Path) -> None:
        """Write the policy of `predict` as JSON: states or nodes, actions, probabilities, values, intervals, masks.

        `examples/` has a reader in Python and one in JavaScript, of some forty lines each.
        """
        write_json(a_path(path), policy_to_json(self.problem, self.result, str(self.model.card.get("sha256", ""))))

    @classmethod
    def load(cls, path: str | Path) -> Agent:
        """The agent that `save` wrote, with the same evidence, policy and random state."""
        with refusing_damage(path):
            model, settings, saved = read_agent(a_path(path))
            agent = cls(model, **settings)
            if saved is not None and saved.holds_vectors:
                agent._set_problem(saved.vector_problem(agent.limits))
            elif saved is not None:
                known = saved.encoding(agent.limits), saved.statistics, saved.options
                saved.restore(agent._start(*known, seed=None, features=saved.features))
        return agent


def _features_of(options: Any, *, vectors: bool = False) -> Any:
    """Take `features` out of the options and return them."""
    features = options.pop("features", None)
    if features is not None and vectors:
        limit = "they are for states that can be counted, and these are vectors"
        raise MdpfnError("features", shown(features), limit, "leave them out")
    return features
