"""The agent: give it an environment or data, and it plans. No training, no tuning."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import gymnasium
import numpy as np

from mdpfn.agents.base import Transition
from mdpfn.agents.in_context import Exploration, InContext
from mdpfn.agents.reward_range import RewardRange
from mdpfn.checks import whole_number
from mdpfn.errors import MdpfnError
from mdpfn.interface.context import Context, Names, Options
from mdpfn.interface.coverage import Coverage
from mdpfn.interface.datasets import open_source
from mdpfn.interface.limits import Limits
from mdpfn.interface.offline import Tally
from mdpfn.interface.online import OnEpisode, run_episodes, spaces_of
from mdpfn.interface.persistence import read_agent, write_agent
from mdpfn.interface.plan import Plan, check_level, empirical_value
from mdpfn.interface.planner import NetworkPlanner
from mdpfn.interface.result import Result
from mdpfn.interface.spaces import codec_of
from mdpfn.outlook import Outlook
from mdpfn.statistics import Statistics
from mdpfn.weights import DEFAULT_WEIGHTS, Model, load_model


class Agent:
    """Solves small decision problems in context: everything it learns about one is in its `statistics`.

    Three ways in: `solve` an environment, `reset` and then `act` and `observe` in a loop of your own, or `fit`
    logged data. Then `predict` or `plan`. Each of the three starts afresh.

    `depth` is how many propagation steps a plan takes, by default as many as in training. `exploration` says how it
    looks around: "directed" goes where something unseen is near, "softmax" draws actions from softmax(logits / τ)
    with τ = `acting_temperature`, as in the paper (B.2). The default is what the weights were made for.
    """

    def __init__(
        self,
        model: Model,
        *,
        depth: int | None = None,
        exploration: Exploration | None = None,
        acting_temperature: float = 0.3,
    ) -> None:
        if exploration not in (None, *get_args(Exploration)):
            limit = f"it must be one of {', '.join(get_args(Exploration))}"
            raise MdpfnError("exploration", repr(exploration), limit, "leave it out for the one of the weights")
        if not isinstance(acting_temperature, int | float | np.number) or not 0 < acting_temperature < np.inf:
            limit = "it must be positive and finite"
            raise MdpfnError("acting_temperature", repr(acting_temperature), limit, "use a value such as 0.3")
        self.model, self.acting_temperature = model, float(acting_temperature)
        self.exploration: Exploration = exploration or model.exploration
        self.limits = Limits.of(model)
        self._planner = NetworkPlanner(model.network, self.limits.checked_depth(depth), self.limits)
        self._context: Context[InContext] | None = None

    @classmethod
    def from_pretrained(cls, weights: str | Path = DEFAULT_WEIGHTS, **options: Any) -> Agent:
        """An agent with the weights of a shipped model, by name, or of a model directory. Never downloads."""
        return cls(load_model(weights), **options)

    def reset(
        self,
        observation_space: Any,
        action_space: Any,
        *,
        discount: float = Options.discount,
        reward_range: RewardRange | None = None,
        replan_every: int | None = None,
        risk: float | None = None,
        seed: int | None = None,
    ) -> Agent:
        """Forget everything and face a new problem.

        Spaces are finite Gymnasium spaces. A number n stands for Discrete(n), a list for the names in it, and
        None for observations that are only known to be hashable: these are numbered as they appear.
        `reward_range` is the smallest and largest reward there can be; without it, rewards count relative to the
        largest one observed. The agent plans at the start of an episode, with `replan_every` also after that
        many steps. `seed` makes its choices repeatable.
        """
        options = self._checked(Options(discount, reward_range, replan_every, risk))
        states = codec_of(observation_space, "observation", self.limits.states)
        actions = codec_of(action_space, "action", self.limits.actions)
        if actions.n == 0:
            limit = f"it must be finite and have at most {self.limits.actions} actions (agent.limits)"
            raise MdpfnError("the action space", action_space, limit, "give a smaller space")
        names = Names(observation_space, action_space, states, actions)
        self._enter(names, Statistics(max(states.n, 1), actions.n), options, seed)
        return self

    def act(self, observation: Any) -> Any:
        """The action to take now, exploring. Plans by itself when an episode has ended."""
        context = self.context
        return context.names.actions.decode(context.learner.act(context.state_id(observation)))

    def observe(
        self,
        observation: Any,
        action: Any,
        reward: float,
        next_observation: Any,
        *,
        terminated: bool,
        truncated: bool = False,
    ) -> None:
        """Learn from one transition.

        `terminated` says that nothing can be earned after `next_observation`, `truncated` that the episode was
        broken off there, which says nothing about the state.
        """
        context = self.context
        action_id = context.names.actions.encode(action)
        state, next_state = context.state_id(observation), context.state_id(next_observation)
        context.record(Transition(state, action_id, reward, next_state, terminated, truncated))

    def solve(
        self,
        env: Any,
        episodes: int = 100,
        *,
        seed: int | None = None,
        discount: float | None = None,
        reward_range: RewardRange | None = None,
        replan_every: int | None = None,
        risk: float | None = None,
        max_episode_steps: int | None = None,
        resume: bool = False,
        on_episode: OnEpisode | None = None,
    ) -> Result:
        """Learn a Gymnasium environment, single or vector, or one by its id, in this many episodes.

        `discount`, `reward_range`, `replan_every` and `risk` are those of `reset`. Episodes are broken off after
        `max_episode_steps`, by default after 1000 where a single environment has no time limit of its own.
        `resume` goes on with what the agent knows of this environment already, and with the options it began
        with. `on_episode` is called after every episode with the `History` so far.
        """
        whole_number("episodes", episodes, low=1)
        if max_episode_steps is not None:
            whole_number("max_episode_steps", max_episode_steps, low=1)
        env = made_env(env)
        observation_space, action_space = spaces_of(env)
        options = {"discount": discount, "reward_range": reward_range, "replan_every": replan_every, "risk": risk}
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        if not resume:
            self.reset(observation_space, action_space, seed=seed, **given)
        context = self.context
        if replace(context.options, **given) != context.options:
            limit = f"the agent began with {context.options}"
            raise MdpfnError("the options", given, limit, "leave them out when resuming, or start afresh")
        known = context.names
        if (known.observation_space, known.action_space) != (observation_space, action_space):
            limit = f"the agent knows {known.observation_space} and {known.action_space}"
            raise MdpfnError("env", repr(env), limit, "resume with the same spaces, or start afresh without resume")
        context.learner.acting_policy = None  # a new episode begins, wherever the last one was left
        run_episodes(context, env, episodes, seed=seed, max_episode_steps=max_episode_steps, on_episode=on_episode)
        return self.result

    def fit(
        self,
        transitions: Any,
        *,
        columns: Mapping[str, str] | None = None,
        observation_space: Any = None,
        action_space: Any = None,
        discount: float = Options.discount,
        reward_range: RewardRange | None = None,
        replan_every: int | None = None,
        risk: float | None = None,
        seed: int | None = None,
    ) -> Agent:
        """Learn from logged transitions; no environment is needed.

        They may come as arrays (states, actions, rewards, next_states[, terminated[, truncated]]) or a list of such
        tuples, a mapping of columns, a pandas or polars frame, a CSV or Parquet file, a Minari dataset, or an
        iterator over any of these. Files are read piece by piece. `columns` says which column is which where the
        names do not tell: {"state": …, "action": …, "reward": …, "next_state": …, "terminated": …}; `result.columns`
        reports what was used. Without spaces, numbers are ids and anything else is a name. `result.coverage`
        tells where the data is thin. The other options are those of `reset`.
        """
        started = time.perf_counter()
        options = self._checked(Options(discount, reward_range, replan_every, risk))
        tally = Tally(open_source(transitions, columns), observation_space, action_space, self.limits)
        statistics = tally.read()
        options.check_rewards(statistics.reward_min, statistics.reward_max)
        context = self._enter(tally.names(), statistics, options, seed)
        context.history.start_states, context.starts_known = tally.start_states, tally.starts_known
        context.columns = tally.source.columns
        context.history.seconds = time.perf_counter() - started
        self.result.coverage.warn()
        return self

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[Any, Any]:
        """(action, state) for one observation, or actions for a batch of them, as in Stable-Baselines3.

        The best action by everything observed so far, or with `deterministic=False` one drawn from the policy.
        `state` and `episode_start` are there for compatibility: the agent needs neither, and returns `state`.
        """
        context = self.context
        states, actions = context.names.states, context.names.actions
        plan = self.plan()

        def action_of(one: Any) -> Any:
            row = states.find(one)
            if row >= len(plan.greedy):  # a state that never appeared: like any other of which nothing is known
                if plan.unknown is None or not plan.unknown.any():
                    return actions.decode(0)
                row = int(plan.unknown.argmax())
            drawn = plan.greedy[row] if deterministic else context.learner.rng.choice(actions.n, p=plan.policy[row])
            return actions.decode(int(drawn))

        if not states.is_batch(observation):
            return action_of(observation), state
        return actions.batch([action_of(one) for one in states.unbatch(observation)]), state

    def plan(
        self,
        statistics: Statistics | None = None,
        *,
        depth: int | None = None,
        risk: float | None = None,
        discount: float | None = None,
        reward_range: RewardRange | None = None,
    ) -> Plan:
        """A policy for every state, by everything observed so far or by the given `statistics`.

        With `risk` its best actions are, of those that the policy hardly tells apart, the ones with the best quantile
        of Q* at that level, which `plan.q_quantiles` holds: a low one shuns what is uncertain, a high one seeks it.
        `discount` and `reward_range` belong to `statistics`; for everything observed so far they are those of `reset`.
        """
        planner = self._planner if depth is None else replace(self._planner, depth=self.limits.checked_depth(depth))
        if statistics is not None:
            if not isinstance(statistics, Statistics):
                limit = "it must be mdpfn.Statistics"
                raise MdpfnError("statistics", repr(statistics), limit, "use Statistics.from_counts, or fit for data")
            told = Options.discount if discount is None else discount
            options = self._checked(Options(told, reward_range, risk=risk))
            if statistics.n_transitions:
                options.check_rewards(statistics.reward_min, statistics.reward_max)
            self.limits.warn_of_discount(options.discount)
            learner = self._learner(statistics, options, np.random.default_rng(0), planner)
            return self._plan_of(learner, learner.outlook(), options.risk)
        for field, value in (("discount", discount), ("reward_range", reward_range)):
            if value is not None:
                limit = "the problem at hand has its own: this one is for statistics"
                raise MdpfnError(field, repr(value), limit, "give it to reset, solve or fit")
        context, learner = self.context, self.context.learner
        outlook = learner.outlook() if depth is None else planner(learner.context(), learner.told())[0]
        risk = context.options.risk if risk is None else self._checked(Options(risk=risk)).risk
        if context.plan is None or context.plan.policy_logits is not outlook.policy_logits or context.plan.risk != risk:
            context.plan = replace(
                self._plan_of(learner, outlook, risk),
                state_codec=context.names.states,
                action_codec=context.names.actions,
            )
        return context.plan

    def _plan_of(self, learner: InContext, outlook: Outlook, risk: float | None) -> Plan:
        return Plan(
            outlook.policy_logits,
            outlook.q_quantiles,
            self.model.network.config.quantiles,
            risk,
            outlook.unknown,
            planned_from=(learner.context(), learner.told()),
        )

    def _checked(self, options: Options) -> Options:
        """The same options; a risk that these weights cannot tell is refused before anybody relies on it."""
        if options.risk is not None:
            check_level(options.risk, self.model.network.config.quantiles)
        return options

    @property
    def statistics(self) -> Statistics:
        """What was observed of the problem at hand."""
        return self.context.learner.statistics

    @property
    def result(self) -> Result:
        """What came of everything so far."""
        context = self.context
        history, statistics, plan = context.history, self.statistics, self.plan()
        starts = history.start_states if context.starts_known else None
        return Result(
            plan=plan,
            value=empirical_value(statistics, plan.greedy, context.options.discount),
            coverage=Coverage.of(statistics, starts, plan),
            returns=np.array(history.returns, dtype=np.float64),
            lengths=np.array(history.lengths, dtype=np.int64),
            n_transitions=statistics.n_transitions,
            seconds=history.seconds,
            discount=context.options.discount,
            weights=self.model.name,
            columns=context.columns,
        )

    def save(self, directory: str | Path, *, copy_weights: bool = False) -> None:
        """Write the agent to a directory: what it observed, what things are called, and where it was.

        Shipped weights are saved by name and checksum, others are copied; `copy_weights` copies them in any case.
        """
        settings: dict[str, Any] = {
            "depth": self._planner.depth,
            "exploration": self.exploration,
            "acting_temperature": self.acting_temperature,
        }
        write_agent(Path(directory), self.model, settings, self._context, copy_weights=copy_weights)

    @classmethod
    def load(cls, directory: str | Path) -> Agent:
        """The agent that `save` wrote. It goes on where it was: same observations, same policy, same chances."""
        model, settings, saved = read_agent(Path(directory))
        agent = cls(model, **settings)
        if saved is not None:
            saved.restore(agent._enter(saved.names(agent.limits), saved.statistics, saved.options, seed=None))
        return agent

    def _enter(self, names: Names, statistics: Statistics, options: Options, seed: int | None) -> Context[InContext]:
        """Face a problem of which something may be known already."""
        self.limits.check_sizes(statistics.n_states, statistics.n_actions)
        self.limits.warn_of_discount(options.discount)
        learner = self._learner(statistics, options, agent_rng(seed), self._planner)
        self._context = Context(names, learner, options, self.limits)
        return self._context

    def _learner(
        self, statistics: Statistics, options: Options, rng: np.random.Generator, planner: NetworkPlanner
    ) -> InContext:
        return InContext(
            statistics.n_states,
            statistics.n_actions,
            discount=options.discount,
            rng=rng,
            planner=planner,
            acting_temperature=self.acting_temperature,
            replan_every=options.replan_every,
            exploration=self.exploration,
            reward_range=options.reward_range,
            statistics=statistics,
        )

    @property
    def context(self) -> Context[InContext]:
        """The problem at hand."""
        if self._context is None:
            limit = "it knows no problem yet"
            raise MdpfnError("the agent", "new", limit, "call reset, solve or fit first, or give plan() statistics")
        return self._context


def agent_rng(seed: int | None) -> np.random.Generator:
    """The generator of an agent: environments seed theirs with the bare seed, and the two must not go in step."""
    return np.random.default_rng(None if seed is None else [whole_number("seed", seed, low=0), 1])


def made_env(env: Any) -> Any:
    """An environment, made by its id if that is what it is."""
    if not isinstance(env, str):
        return env
    if env.startswith("mdpfn/"):
        importlib.import_module("mdpfn.environments")  # registers the environments of this package
    try:
        return gymnasium.make(env)
    except Exception as error:
        limit = f"Gymnasium could not make it ({error})"
        raise MdpfnError("env", repr(env), limit, "check its id, or install what it needs") from None
