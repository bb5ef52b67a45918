"""The in-context learner: acts by what a planner, such as the network, makes of the evidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.evidence import Novelty, PairTable, Statistics, Transition
from mdpfn.evidence.factored.completion import Completion, Foreseen
from mdpfn.exploration.clock import Clock
from mdpfn.exploration.earning import EarningExplorer, Objective
from mdpfn.online.learner import Learner
from mdpfn.online.snapshot import Snapshot
from mdpfn.planners.certain import certain
from mdpfn.planners.foretold import told
from mdpfn.planners.offset import less, offset_of
from mdpfn.planners.output import PlannerOutput
from mdpfn.planners.policies import ActionSampler, greedy_actions, one_hot, softmax
from mdpfn.planners.problem_info import ProblemInfo

Planner: TypeAlias = Callable[[PairTable, ProblemInfo], PlannerOutput]
PREDICTED_VISITS = 16.0  # that a predicted pair counts for a planner, which only sees nearly certain predictions
Exploration: TypeAlias = Literal["softmax", "directed"]


class InContextLearner(Learner):
    """Exploits by the best logits of its planner, and explores in one of two ways.

    - `softmax`, the paper's: it acts by π(a | s) = softmax_a(u(s, a) / τ), planned once per episode (B);
    - `directed`: it explores where information is worth its price (`EarningExplorer`) and plans again when something
      new was observed; in the last episode of its budget it exploits, unless only the final policy counts.

    With `replan_every` it also plans when that many steps have passed since the last plan. States may be added to
    its evidence at any time; until it plans for them, it takes random actions there.
    """

    def __init__(
        self,
        evidence: Statistics,
        info: ProblemInfo,
        rng: np.random.Generator,
        *,
        planner: Planner,
        exploration: Exploration,
        acting_temperature: float,
        replan_every: int | None = None,
        objective: Objective = "return",
        explore: bool = True,
    ) -> None:
        super().__init__(evidence, info, rng)
        self.planner, self.acting_temperature, self.replan_every = planner, acting_temperature, replan_every
        self.explorer = EarningExplorer(objective) if exploration == "directed" else None
        self.explore = explore
        self.completion: Completion | None = None  # predicts untried pairs, where states are made of parts
        self.clock = Clock()
        self.foreseen = Foreseen()  # transitions predicted by the table that its explorer planned on
        self.has_plan = False  # whether it acts by the last plan: …
        self.acting_policy: Floats | None = None  # … by this policy (S, A), or if None by its explorer
        self._sampler: ActionSampler | None = None  # of the acting policy
        self._before_plan: tuple[dict[str, Any], Snapshot] | None = None  # to undo the plan of the last `act`
        self._observed: tuple[PairTable, PairTable] | None = None  # an observed table, and with its reward scale, …
        self._told: tuple[PairTable, PairTable] | None = None  # … that one, and with what is told by all pairs together
        self._output: tuple[PairTable, PlannerOutput] | None = None  # an observed table, and what was made of it

    def act(self, state: int) -> int:
        """The action to take now: exploring, or exploiting where there is nothing to explore for."""
        self.keep_plan()
        if not self.has_plan:
            self._plan_acting()
        if self.acting_policy is None:
            assert self.explorer is not None
            return self.explorer.action(state, self.evidence.mask(state))
        if self._sampler is None:
            self._sampler = ActionSampler(self.acting_policy, self.rng)
        return self._sampler(state) if state < len(self.acting_policy) else self.any_action(state)

    def _plan_acting(self) -> None:
        """Make the plan to act by from now on; if anything is raised, the last one stays."""
        self._before_plan = dict(vars(self)), Snapshot(self.clock, self.explorer)
        try:
            self.acting_policy = self._sampler = None
            if self._exploits:
                self.acting_policy = self.plan()
            elif self.explorer is not None:
                self.explorer.plan(*self._centred(self._read()), self.clock)
                self.foreseen = Foreseen() if self.completion is None else self.completion.foreseen
            else:
                self.acting_policy = softmax(self.planner_output().policy_logits / self.acting_temperature)
            self.has_plan = True
            self.clock.planned()
        except BaseException:
            self.take_back_plan()
            raise

    def take_back_plan(self) -> None:
        """Undo the plan that the last call of `act` made, if it made one."""
        if self._before_plan is not None:
            held, parts = self._before_plan
            parts.restore()
            vars(self).update(held)

    def keep_plan(self) -> None:
        """Keep the plan: `take_back_plan` no longer undoes it."""
        self._before_plan = None

    @property
    def _exploits(self) -> bool:
        """Whether there is nothing to explore for."""
        is_last = self.explorer is not None and self.explorer.objective == "return" and self.clock.is_last_episode
        return is_last or not self.explore

    def observe(self, transition: Transition) -> Novelty:
        """Learn from one transition, and plan again before the next action if it ends an episode or is news."""
        novelty = super().observe(transition)
        ends_episode, trigger = transition.ends_episode, novelty.replan_trigger
        pair = transition.state * self.evidence.n_actions + int(transition.action)
        foreseen = novelty.n_visits == 1 and not novelty.new_scale and (pair, transition) in self.foreseen
        trigger = trigger and not foreseen  # what was predicted is no news
        self.clock.advance(int(transition.action), ends_episode=ends_episode, replan_trigger=trigger)
        if ends_episode or self._plans_again():
            self.has_plan = False
        elif (
            novelty.n_visits == 1
            and not foreseen
            and self.has_plan
            and self.acting_policy is None
            and self.explorer is not None
        ):
            self.explorer.tried(transition.state, int(transition.action))
        return novelty

    def before(self, transition: Transition) -> Any:
        """What `take_back` needs to undo a transition that is about to be observed."""
        evidence = self.evidence.before(transition)
        explorer = None
        if self.explorer is not None and evidence[2] is None:  # a pair that was never visited: the explorer notes it
            explorer = self.explorer.before(transition.state, transition.action)
        return evidence, dict(vars(self.clock)), self.has_plan, explorer

    def take_back(self, before: Any) -> None:
        """Undo a transition, even if it was learned only in part."""
        evidence, clock, self.has_plan, explorer = before
        self.evidence.take_back(evidence)
        vars(self.clock).update(clock)
        if explorer is not None and self.explorer is not None:
            self.explorer.take_back(explorer)

    def _plans_again(self) -> bool:
        if self.clock.steps_since_plan == self.replan_every:
            return True
        sizes = self.evidence.n_visited, self.evidence.n_actions
        return self.explorer is not None and self.explorer.plans_again(self.clock, *sizes)

    def begin(self, episodes: int) -> None:
        """Prepare for a run of this many episodes."""
        self.has_plan, self.clock.step = False, 0
        self.clock.budget = self.clock.episode + episodes

    def plan(self) -> Floats:
        """(S, A) the best action of each state."""
        output = self.planner_output()
        return one_hot(greedy_actions(output.policy_logits, output.unknown), self.evidence.n_actions)

    def table(self, least_visits: float = 0.0) -> PairTable:
        """The table that the planner reads, with the reward scale of the problem.

        With softmax exploration, as in the paper, it is exactly what was observed. With directed exploration, noisy
        pairs are pooled, what slip foretells is added, and untried pairs that factors predict with at least
        `least_visits` visits each.
        """
        read = self._read(least_visits)
        if self.explorer is None:
            return read
        if self._told is None or self._told[0] is not read:
            self._told = read, told(read)
        return self._told[1]

    def _read(self, least_visits: float = 0.0) -> PairTable:
        """What was observed, and what factors predict."""
        observed = self.evidence.table()  # the same object until anything changes
        if self.completion is not None and self.explorer is not None:
            return self._scaled(self.completion(observed, least_visits))
        if self._observed is None or self._observed[0] is not observed:
            self._observed = observed, self._scaled(observed)
        return self._observed[1]

    def _scaled(self, table: PairTable) -> PairTable:
        scale = self.reward_scale
        return table if table.reward_scale[0] == scale else table.with_numbers(reward_scale=np.array([scale]))

    def planner_output(self) -> PlannerOutput:
        """The output of the planner for everything observed so far."""
        observed = self.evidence.table()
        if self._output is None or self._output[0] is not observed:
            self._output = observed, self.ask(self.planner)
        return self._output[1]

    def ask(self, planner: Planner) -> PlannerOutput:
        """The output of any planner for everything observed so far, in the units of the rewards."""
        table, info = self._centred(self.table(PREDICTED_VISITS))
        output = planner(table, info)
        if len(table.pair) > len(self.evidence.table().pair):  # of which no network learned
            output = certain(output, table, info)
        if output.q_quantiles is not None and self.offset:
            output.q_quantiles[...] += self.offset * self.info.horizon[0]
        return output

    @property
    def offset(self) -> float:
        """What is subtracted from rewards before planning: their distance from 0, if no episode ends."""
        return 0.0 if self.evidence.terminal else offset_of(*self._reward_range)

    @property
    def _reward_range(self) -> tuple[float, float]:
        """The smallest and the largest reward: of the given range, else observed, else (0, 0)."""
        if np.isfinite(self.info.reward_low[0]):
            return float(self.info.reward_low[0]), float(self.info.reward_high[0])
        seen = self.evidence.reward_min, self.evidence.reward_max
        return seen if self.evidence.n_transitions else (0.0, 0.0)

    def _centred(self, table: PairTable) -> tuple[PairTable, ProblemInfo]:
        """A table and the info beside it, with rewards less their offset."""
        low, high = self._reward_range
        return less(table, self.info, self.offset, high - low)
