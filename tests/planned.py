"""Help for the tests of planned networks: statistics with terminations, dense oracles, small models."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cache

import numpy as np
import torch
from hypothesis import strategies as st

from mdpfn.arrays import Bools, Floats
from mdpfn.evidence import PairTable, Statistics, Transition
from mdpfn.network.config import NetworkConfig
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.tensors import to_numpy
from mdpfn.planners.classical import CERTAINTY_EQUIVALENT, OPTIMISTIC, PESSIMISTIC, PURE_EXPLORATION, PlannerConfig
from mdpfn.planners.problem_info import ProblemInfo
from mdpfn.weights import Model
from tests.strategies import seeds

LEVELS = (0.05, 0.25, 0.5, 0.9, 0.95)
PENALTY, UNSEEN_VISITS = PlannerConfig().penalty, PlannerConfig().unseen_visits
Problem = tuple[PairTable, ProblemInfo]


@cache
def planned_model() -> Model:
    """Untrained: it says what the certainty-equivalent planner says."""
    torch.manual_seed(0)
    config = NetworkConfig(
        width=8, n_heads=2, depth=2, dropout=0.0, inputs="planned", quantiles=LEVELS, action_pooling=True
    )
    return Model("planned", to_numpy(PolicyNetwork(config)), {"format": 2, "network": asdict(config), "sha256": ""})


@cache
def random_network() -> PolicyNetwork:
    """In float64, with weights large enough that every input matters to every output."""
    torch.manual_seed(1)
    config = NetworkConfig(
        width=16, n_heads=4, depth=3, dropout=0.0, inputs="planned", quantiles=LEVELS, action_pooling=True
    )
    network = PolicyNetwork(config).double().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter) * (0.25 if parameter.ndim == 2 else 0.3))
    return network


@st.composite
def histories(draw: st.DrawFn, max_states: int = 7, max_actions: int = 4) -> Statistics:
    """Nothing, little or much observed; some states never seen, some end episodes, always or now and then."""
    n_states, n_actions = draw(st.integers(1, max_states)), draw(st.integers(1, max_actions))
    rng = np.random.default_rng(draw(seeds))
    ending = rng.random(n_states) * draw(st.sampled_from([0, 0, 1])) > 0.6
    always = draw(st.booleans())
    n_seen = int(rng.integers(1, n_states + 1))
    result = Statistics(n_states, n_actions)
    state = int(rng.integers(n_seen))
    for _ in range(draw(st.sampled_from([0, 1, 5, 20, 80]))):
        action, successor = int(rng.integers(n_actions)), int(rng.integers(n_seen))
        over = bool(ending[successor] and (always or rng.random() < 0.5))
        result.add(Transition(state, action, float(np.round(rng.normal(), 2)), successor, over))
        state = int(rng.integers(n_seen)) if over else successor
    return result


def weighed(z: PairTable, factor: float) -> PairTable:
    """The same, as if every transition had been observed this often: counts may be fractional."""
    names = ("n_visits", "reward_sum", "reward_square_sum", "transition_count", "n_terminated")
    return replace(z, **{name: factor * getattr(z, name) for name in names})


def paid_more(z: PairTable, by: float) -> PairTable:
    """The same with larger rewards."""
    squares = z.reward_square_sum + 2 * by * z.reward_sum + by**2 * z.n_visits
    return replace(z, reward_sum=z.reward_sum + by * z.n_visits, reward_square_sum=squares)


@st.composite
def problems(draw: st.DrawFn, discounts: tuple[float, ...] = (0.0, 0.5, 0.9, 0.97)) -> Problem:
    """Statistics and what is told: any discount, a range of rewards or none.

    Now and then counts are fractional, and some pairs take more than one step.
    """
    statistics = draw(histories())
    z = weighed(statistics.table(), draw(st.sampled_from([1.0, 1.0, 1.0, 0.25, 1.5])))
    if draw(st.sampled_from([False, False, True])):
        z = replace(z, duration=np.random.default_rng(draw(seeds)).choice([1.0, 2.0, 3.5], size=len(z.pair)))
    low, high = (statistics.reward_min, statistics.reward_max) if len(z.pair) else (-1.0, 1.0)
    kind = draw(st.sampled_from(["none", "tight", "loose", "above", "below"]))
    discount = draw(st.sampled_from(discounts))
    if kind == "none" or low == high == 0:
        return z, ProblemInfo.of(discount)
    if kind in ("above", "below"):  # all rewards are gains, or all are losses
        shift = 0.5 - low if kind == "above" else -0.5 - high
        z = paid_more(z, shift)
        low, high = low + shift, high + shift
    elif kind == "loose":
        low, high = low - 1, high + 2
    return replace(z, reward_scale=np.array([max(abs(low), abs(high))])), ProblemInfo.of(discount, (low, high))


@dataclass(frozen=True, eq=False)
class DenseModel:
    """What was observed of one MDP, pair by pair: the model that slow oracles solve."""

    transition: Floats  # (S, A, S) P̂ without what ended; rows of pairs never visited are uniform
    reward: Floats  # (S, A) r̂; 0 where nothing was visited
    visits: Floats  # (S, A)
    duration: Floats  # (S, A)
    over: Bools  # (S,) terminal states that nobody went on from: nothing follows, nothing is paid

    @property
    def tried(self) -> Bools:
        """(S, A)"""
        return self.visits > 0

    def optimal_q(
        self, discount: float, *, bonus: Floats | float = 0.0, limit: float = np.inf, untried: float | None = None
    ) -> Floats:
        """(S, A) Q = clip(r̂ + bonus + γ^duration P̂ max Q, ±limit); pairs never visited may be pinned to a value."""
        reward, gamma = self.reward + np.where(self.tried, bonus, 0.0), discount**self.duration
        q, change = np.zeros_like(reward), np.inf
        while change > 1e-12:
            backup = np.clip(reward + gamma * (self.transition @ q.max(axis=1)), -limit, limit)
            if untried is not None:
                backup[~self.tried] = untried
            backup[self.over] = 0
            change, q = np.abs(backup - q).max(), backup
        return q

    def policy_value(self, policy: Floats, discount: float) -> Floats:
        """(S,) V of π (S, A) by one dense linear system."""
        going_on = (policy * discount**self.duration)[:, :, None] * self.transition
        rows, pays = going_on.sum(axis=1), (policy * self.reward).sum(axis=1)
        rows[self.over], pays[self.over] = 0, 0
        return np.linalg.solve(np.eye(len(rows)) - rows, pays)


def dense_model(z: PairTable) -> DenseModel:
    """The empirical model of one MDP, straight from its table of pairs, transition by transition."""
    n_states, n_actions = int(z.n_states[0]), int(z.n_actions[0])
    transition = np.full((n_states, n_actions, n_states), 1 / n_states)
    reward, visits, duration = (
        np.zeros((n_states, n_actions)),
        np.zeros((n_states, n_actions)),
        np.ones((n_states, n_actions)),
    )
    over = np.zeros(n_states, dtype=bool)
    edge = 0
    for row, pair in enumerate(z.pair):
        state, action = divmod(int(pair), n_actions)
        mine = range(edge, edge + int(z.n_successors[row]))
        edge = mine.stop
        transition[state, action] = 0
        visits[state, action] = sum(z.transition_count[i] for i in mine)
        for i in mine:
            went_on = z.transition_count[i] - z.n_terminated[i]
            transition[state, action, z.successor[i]] = went_on / visits[state, action]
            over[z.successor[i]] |= z.n_terminated[i] > 0
        reward[state, action] = z.reward_sum[row] / visits[state, action]
        duration[state, action] = z.duration[row]
    over &= ~visits.any(axis=1)
    return DenseModel(transition, reward, visits, duration, over)


def slow_estimates(known: PairTable, info: ProblemInfo) -> tuple[Floats, Floats, Floats]:
    """Q (S, A, 4), V (S, 4) and what a state never left is worth (4,), of one MDP, by sweeps over every pair.

    Straight from the equations in `mdpfn.planners.classical`, without tokens and without sparse matrices.
    """
    n_states, n_actions = int(known.n_states[0]), int(known.n_actions[0])
    count = np.zeros((n_states, n_actions, n_states))
    reward, duration = np.zeros((n_states, n_actions)), np.ones((n_states, n_actions, 1))
    terminal = np.zeros(n_states, dtype=bool)
    edge = 0
    of_pairs = zip(known.pair, known.reward_sum, known.duration, known.n_successors, strict=True)
    for pair, total, steps, n in of_pairs:
        state, action = divmod(int(pair), n_actions)
        duration[state, action] = steps
        for successor, times, ended in zip(
            known.successor[edge : edge + n], known.transition_count[edge : edge + n],
            known.n_terminated[edge : edge + n], strict=True,
        ):  # fmt: skip
            count[state, action, successor] = times
            terminal[successor] |= ended > 0
        reward[state, action] = total / count[state, action].sum() / known.reward_scale[0]
        edge += n
    visits = count.sum(axis=2)
    tried, active = visits > 0, (visits > 0).any(axis=1)
    rows = count / np.where(tried, visits, 1)[:, :, None]

    gamma = float(info.discount[0])
    high, low = info.reward_high[0] / known.reward_scale[0], info.reward_low[0] / known.reward_scale[0]
    high, low = 1.0 if np.isinf(high) else high, -1.0 if np.isinf(low) else low
    unseen = np.zeros(4)  # the certain planner's own is the mean of what it knows
    unseen[OPTIMISTIC] = high / (1 - gamma) if high > 0 else high
    unseen[PESSIMISTIC] = (low / (1 - gamma) if low < 0 else low) - PENALTY / (1 - gamma)
    unseen[PURE_EXPLORATION] = 1 / (1 - gamma)
    earned = reward[:, :, None] * (np.arange(4) != PURE_EXPLORATION)
    earned[:, :, PESSIMISTIC] -= PENALTY / np.sqrt(np.where(tried, visits, 1))
    w = UNSEEN_VISITS * np.isin(np.arange(4), (OPTIMISTIC, PURE_EXPLORATION))
    weight = visits[:, :, None] / np.where(tried[:, :, None], visits[:, :, None] + w, 1)
    goes_on = ~terminal[:, None, None]
    allowed = tried[:, :, None] | (np.arange(4) != CERTAINTY_EQUIVALENT)
    value, change = np.zeros((n_states, 4)), np.inf
    while change > 1e-11:
        unseen[CERTAINTY_EQUIVALENT] = value[active, CERTAINTY_EQUIVALENT].sum() / max(active.sum(), 1)
        q = (weight * (earned + gamma**duration * (rows @ value)) + (1 - weight) * unseen) * goes_on
        best = np.where(allowed, q, -np.inf).max(axis=1)
        new = np.where(active[:, None], best, unseen)
        change, value = np.abs(new - value).max(), new
    return q, value, unseen
