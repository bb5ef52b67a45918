"""Exploration that earns: it pays for information where information is worth its price.

It plans twice on what was observed. The certainty-equivalent plan takes the data at its word and gives V and Q. The
exploring plan asks what looking around is worth on top of that: X(s, a), in units of value. Trying what was never tried
is worth the price B; on the way there one loses L(s, a) = V(s) − Q(s, a) ≥ 0 with every action that is not the best:

    X(s, a) = (1 − κ ρ(s, a)) B² / (B + L̄(a))                        never tried; L̄(a): what the action lost elsewhere
    X(s, a) = φ B + (1 − φ) (−L(s, a) + g Σ_s' P̂(s' | s, a) X(s'))   tried n times; φ = 1 / (1 + (n / τ)^p) is doubt
    X(s)    = max(0, max_a X(s, a)), and B in a state that was never left

ρ(s, a) is how surely an action leads back to where s was entered from (`undoing`): it comes last, but it does come.
Of actions that are nearly as good, one that was not tried here and was taken last is taken again: it goes straight on.
Both plans read the table as common slip foretells it (`slip`, `foretold`), where there is such a thing.
Who takes the best known action loses nothing, so X ≥ 0, and where nothing can be gained it exploits. The discount g of
X is its own: how far curiosity reaches does not depend on how far the user looks ahead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from mdpfn.arrays import Floats, Ints, sums_by
from mdpfn.evidence import PairTable
from mdpfn.evidence.pooling import pooled
from mdpfn.exploration.clock import Clock
from mdpfn.exploration.rows import Rows
from mdpfn.model.choices import solve
from mdpfn.planners.foretold import foretold
from mdpfn.planners.problem_info import ProblemInfo
from mdpfn.planners.slip import Slip, SlipConfig

Objective: TypeAlias = Literal["return", "policy"]

VALUE_TOLERANCE = 1e-3  # of the largest reward, where there are too many states for exact values
TIE = 1e-3  # of the price: exploring values closer than this are equal
MEAN, SPREAD, PRICE, REPLAN = range(4)  # of V over known states; B; the step of the episode at which to plan again
SLIP_VISITS, FITTED, FITTED_SCALE = range(4, 7)  # what slip counts; all visits and the reward scale it was fitted to
REFIT_GROWTH = 1.1  # of all visits, after which slip is fitted again, before the next episode


@dataclass(frozen=True)
class EarningConfig:
    """The numbers of the rule, found by search on lives in worlds of the prior; the price and doubt matter most."""

    price: float = 0.04  # of an untried pair at the start of a life of 64 episodes, in units of value
    price_growth: float = 0.45  # it grows with the budget E as E^this …
    price_decay: float = 1.2  # … and falls with the share of it that is left to the power of this
    late_in_episode: float = 1.6  # and grows as γ^(−this · t) with the step t: what is lost late counts less
    usual_reward: float = 1.3  # people write rewards of this order: the unit u until the budget says otherwise
    noisy_visits: float = 0.75  # τ of a pair that was seen to be noisy
    certain_visits: float = 0.014  # τ of any other pair in a world without noise …
    suspicion: float = 0.42  # … and this much more, times the share of noisy pairs among those tried twice
    undiscovered_doubt: float = 2.0  # … all times this while there are states never seen
    doubt_exponent: float = 1.2  # p
    untried_spreads: float = 2.0  # an untried pair is worth mean V − L̄(a) − this many standard deviations of V
    curiosity: float = 0.96  # g
    leads_back: float = 0.15  # κ: how much less an untried action is worth that surely undoes the one before
    straight_on: float = 0.1  # of the price: how much worse an action may look that goes straight on
    replan_growth: float = 1.5  # of the price, after which a plan is made anew, even if nothing was seen that is new
    states_per_step: int = 25  # the plan of a large problem must serve for more than one step
    slip: SlipConfig | None = field(default_factory=SlipConfig)  # None: tables are read as they are


@dataclass
class Carried:
    """What a plan leaves: what to act by, and values for the next plan to start from."""

    value: Floats = field(default_factory=lambda: np.zeros(0))  # (S,) V
    extra: Floats = field(default_factory=lambda: np.zeros(0))  # (S,) X
    loss: Floats = field(default_factory=lambda: np.zeros(0))  # (A,) L̄
    scalars: Floats = field(default_factory=lambda: np.array([0.0, 0.0, 0.0, np.inf, 0.0, 0.0, 0.0]))  # by the indices
    known: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # states with a row of their own in …
    exploring: Floats = field(default_factory=lambda: np.zeros((1, 0)))  # (known + 1, A) X; the last row is any other's
    slip_state: Ints = field(default_factory=lambda: Slip().state)  # what is known of slip
    slip_successor: Ints = field(default_factory=lambda: Slip().successor)
    slip_share: Floats = field(default_factory=lambda: Slip().share)
    slip_reward: Floats = field(default_factory=lambda: Slip().reward)

    def copy(self) -> Carried:
        """One for the next plan, which can be made without changing this one."""
        return replace(self, value=self.value.copy(), extra=self.extra.copy(), scalars=self.scalars.copy())

    @property
    def slip(self) -> Slip:
        """The slip that was fitted last."""
        visits = float(self.scalars[SLIP_VISITS])
        return Slip(self.slip_state, self.slip_successor, self.slip_share, self.slip_reward, visits)

    def fit_slip(self, table: PairTable, observed: PairTable, config: SlipConfig) -> None:
        """Fit slip to a table and what was observed."""
        slip = Slip.of(table, observed, config)
        self.slip_state, self.slip_successor = slip.state, slip.successor
        self.slip_share, self.slip_reward = slip.share, slip.reward
        self.scalars[[SLIP_VISITS, FITTED, FITTED_SCALE]] = slip.visits, table.n_visits.sum(), table.reward_scale[0]

    def make_room(self, n_states: int, n_actions: int) -> None:
        """Let there be an entry for every state and action."""
        more = np.zeros(max(n_states - len(self.value), 0))
        if len(more):
            self.value, self.extra = np.append(self.value, more), np.append(self.extra, more)
        if len(self.loss) != n_actions:
            self.loss = np.zeros(n_actions)


class EarningExplorer:
    """Chooses actions that earn and inform; what it needs of the past is in the evidence and in what it carries.

    With `objective="policy"` only the policy at the end counts: what is lost on the way does not, and the price of
    information never falls.
    """

    def __init__(self, objective: Objective = "return", config: EarningConfig = EarningConfig()) -> None:  # noqa: B008
        self.objective, self.config = objective, config
        self.carried = Carried()
        self._rows: Rows | None = None  # that the last plan read
        self._row_of: dict[int, int] | None = None  # of a state, in what the last plan carries
        self._chosen: dict[int, int] = {}  # actions by state, since the last plan, where there is no mask

    def plans_again(self, clock: Clock, n_visited: int, n_actions: int) -> bool:
        """Whether to plan in the middle of an episode."""
        served = clock.steps_since_plan * self.config.states_per_step >= n_visited / n_actions
        return served and (clock.replan_trigger or clock.step >= self.carried.scalars[REPLAN])

    def plan(self, table: PairTable, info: ProblemInfo, clock: Clock) -> None:
        """Decide what every state is to be acted in by, from now on."""
        self.carried = carried = self.carried.copy()  # the old one stays as it is, for whoever is interrupted
        table = self._foretold(table, clock)
        rows = Rows.of(table, self._rows)
        carried.scalars[REPLAN] = self._replan_step(clock, info.discount[0])
        carried.make_room(int(table.n_states[0]), rows.n_actions)
        if len(rows.token):
            loss = self._plan_certain(rows, table, info)
            values = self._plan_exploring(rows, loss, self._price(rows, info, clock), clock.last_action)
        else:
            values = np.where(rows.untried, 0.0, -np.inf)
        carried.known, carried.exploring, self._row_of, self._rows = rows.known, values, None, rows
        self._chosen.clear()

    def action(self, state: int, mask: tuple[bool, ...] | None = None) -> int:
        """What to do in a state by the last plan: the first of the best actions that exist there."""
        if mask is None and state in self._chosen:
            return self._chosen[state]
        row = self.carried.exploring[self._row(state)]
        if mask is not None:
            row = np.where(mask, row, -np.inf)
        best = int((row >= row.max() - TIE * self.carried.scalars[PRICE]).argmax())
        if mask is None:
            self._chosen[state] = best
        return best

    def tried(self, state: int, action: int) -> None:
        """Take note that an action was tried in a state for the first time: not once more before the next plan."""
        row, carried = self._row(state), self.carried
        self._chosen.pop(state, None)
        if row == len(carried.known):  # a state that was not known: it gets a row of its own
            carried.known = np.append(carried.known, state)
            carried.exploring = np.insert(carried.exploring, row, carried.exploring[-1], axis=0)
            self._row_of = None
        carried.exploring[row, action] = -np.inf

    def before(self, state: int, action: int) -> tuple[Any, ...]:
        """What `take_back` needs to forget that an action was tried."""
        carried, row = self.carried, self._row(state)
        value = carried.exploring[row, action] if carried.exploring.size else None
        return carried.known, carried.exploring, (row, action), value

    def take_back(self, before: tuple[Any, ...]) -> None:
        """Put back what was before an action was tried."""
        self.carried.known, self.carried.exploring, place, value = before
        if value is not None:
            self.carried.exploring[place] = value
        self._row_of = None
        self._chosen.clear()

    def _row(self, state: int) -> int:
        if self._row_of is None:
            known = self.carried.known.tolist()
            self._row_of = dict(zip(known, range(len(known)), strict=True))
        return self._row_of.get(state, len(self.carried.known))

    def _foretold(self, observed: PairTable, clock: Clock) -> PairTable:
        """The pooled table with what common slip says, which is fitted before an episode if much more was seen."""
        carried, config = self.carried, self.config.slip
        if config is None:
            return observed
        table = pooled(observed)
        grown = float(table.n_visits.sum()) >= REFIT_GROWTH * carried.scalars[FITTED]
        if (clock.step == 0 and grown) or table.reward_scale[0] != carried.scalars[FITTED_SCALE]:
            carried.fit_slip(table, observed, config)
        return foretold(table, carried.slip)

    def _plan_certain(self, rows: Rows, table: PairTable, info: ProblemInfo) -> Floats:
        """(rows,) certainty-equivalent L = V − Q; untried actions are worth a little less than known states."""
        carried = self.carried
        mean, spread = carried.scalars[[MEAN, SPREAD]]
        untried = mean - carried.loss - self.config.untried_spreads * spread
        choices = rows.choices(
            gain=rows.reward,
            weight=table.discounts(info.discount),
            floor=np.where(rows.untried[:-1], untried, -np.inf).max(axis=1),
            outside=None,
        )
        found = solve(choices, carried.value[rows.known], VALUE_TOLERANCE * table.reward_scale[0])
        carried.value[rows.known] = found.value
        loss: Floats = found.value.take(rows.token) - found.q
        tried = np.bincount(rows.action, minlength=rows.n_actions)
        carried.loss = sums_by(rows.action, loss, rows.n_actions) / (tried + 1)
        carried.scalars[MEAN] = mean = found.value.mean()
        carried.scalars[SPREAD] = np.sqrt(np.square(found.value - mean).mean())
        return loss

    def _plan_exploring(self, rows: Rows, loss: Floats, price: float, last_action: int) -> Floats:
        """(known + 1, A) X, −∞ for actions that do not exist."""
        config, carried = self.config, self.carried
        doubt = self._doubt(rows)
        untried = (1 - config.leads_back * rows.leads_back) * (price**2 / (price + carried.loss))
        values = np.where(rows.untried, untried, -np.inf)
        sure = 1 - doubt
        choices = rows.choices(
            gain=doubt * price - sure * loss if self.objective == "return" else doubt * price,
            weight=sure * config.curiosity,
            floor=np.maximum(values[:-1].max(axis=1), 0.0),
            outside=price,
        )
        before = carried.scalars[PRICE]
        start = carried.extra[rows.known] * (price / before if before else 0.0)
        found = solve(choices, start, 2 * TIE * price)
        carried.extra[rows.known] = found.value
        carried.scalars[PRICE] = price
        values[rows.token, rows.action] = found.q
        values[rows.untried[:, last_action], last_action] += config.straight_on * price
        return values

    def _doubt(self, rows: Rows) -> Floats:
        """(rows,) φ = 1 / (1 + (n / τ)^p)."""
        config, twice = self.config, rows.n_visits >= 2
        suspicion = config.suspicion * int((rows.noisy & twice).sum()) / max(int(twice.sum()), 1)
        visits = (config.certain_visits + suspicion) * (1.0 if rows.all_seen else config.undiscovered_doubt)
        tau = np.where(rows.noisy, config.noisy_visits, visits)
        doubt: Floats = 1 / (1 + (rows.n_visits / tau) ** config.doubt_exponent)
        return doubt

    def _price(self, rows: Rows, info: ProblemInfo, clock: Clock) -> float:
        """B: what trying an untried pair may cost now, in units of value."""
        unit = self._unit(rows, info, self._share_left(clock))
        return self._price_share(clock, info.discount[0]) * unit * self._rewarded_steps(rows, float(info.horizon[0]))

    def _rewarded_steps(self, rows: Rows, horizon: float) -> float:
        """How many of the largest rewards a life may collect, between all there is time for and the most known of.

        A goal that ends the episode pays once, however far one looks ahead. Where no reward above 0 is known, nothing
        is known of that either.
        """
        largest, best = float(rows.reward.max()), float(self.carried.value[rows.known].max())
        if largest <= 0 or best <= 0:
            return horizon
        return math.sqrt(horizon * min(max(best / largest, 1.0), horizon))

    def _price_share(self, clock: Clock, discount: float) -> float:
        """The price as a part of the largest there is."""
        config = self.config
        budget = clock.budget or 2 * (clock.episode + 8)
        price = config.price * (budget / 64) ** config.price_growth * self._share_left(clock) ** config.price_decay
        return float(min(price * math.exp(min(self._growth(discount) * clock.step, 50.0)), 1.0))

    def _growth(self, discount: float) -> float:
        """By which power of e the price grows in a step."""
        return self.config.late_in_episode * math.log(1 / max(discount, 1e-9))

    def _replan_step(self, clock: Clock, discount: float) -> float:
        """The step of this episode at which the price will have grown so much that a new plan is due."""
        growth = self.config.replan_growth
        reaches_limit = growth * self._price_share(clock, discount) > 1
        return math.inf if reaches_limit else clock.step + math.log(growth) / self._growth(discount)

    def _share_left(self, clock: Clock) -> float:
        """The share of the budget in which what is learned now can still be used."""
        return 1.0 if self.objective == "policy" else clock.share_left

    def _unit(self, rows: Rows, info: ProblemInfo, share_left: float) -> float:
        """The unit of rewards: the largest that was seen, mixed with a usual one as long as there is time to find it.

        Rewards below zero count by their average: a cliff to avoid is no treasure to look for. Who knows the largest
        reward there can be, and that it is one, has no need to guess; who knows that all are costs, up to which size.
        """
        if 0 < info.reward_high[0] < np.inf:
            return float(info.reward_high[0])
        usual, paid = self.config.usual_reward, rows.reward != 0
        if info.reward_low[0] < 0 >= info.reward_high[0]:
            usual = min(usual, -float(info.reward_low[0]))
        if not paid.any():
            return usual
        average = float(np.abs(rows.reward) @ rows.n_visits / rows.n_visits[paid].sum())
        seen = max(float(rows.reward.max()), average)
        return float(max(seen, usual**share_left * seen ** (1 - share_left)))
