"""Lives: MDPs of the prior in which somebody gathers data, a little more each time the network meets them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mdpfn.arrays import Floats, Ints, offsets_of, sums_by
from mdpfn.checks import check_types
from mdpfn.errors import MdpfnError
from mdpfn.exact import Solution, solve
from mdpfn.exploration import observed
from mdpfn.mdp import MDPBatch, TabularMDP
from mdpfn.prior.sizes import log_uniform
from mdpfn.statistics import StatisticsBatch
from mdpfn.told import Told

Behaviour = Literal["coverage", "uniform", "exploring", "policy"]
BEHAVIOURS: tuple[Behaviour, ...] = ("coverage", "uniform", "exploring", "policy")


@dataclass(frozen=True)
class LifeConfig:
    """How data is gathered in training."""

    slots: int = 256  # lives at the same time, in every process
    episodes: tuple[int, int] = (1, 64)  # of one life, log-uniform
    steps: tuple[int, int] = (10, 100)  # of one episode at most, log-uniform
    budget: tuple[float, float] = (0.1, 30.0)  # mean visits per pair, where pairs are visited at random
    behaviours: tuple[float, ...] = (0.15, 0.45, 0.3, 0.1)  # shares of coverage, uniform, exploring, policy
    range_known: float = 0.4  # share of lives in which the range of rewards is told
    unreported: float = 0.2  # share in which episodes run on through terminal states, as in the paper's rollouts

    def __post_init__(self) -> None:
        check_types(self)
        for field in ("episodes", "steps", "budget"):
            low, high = getattr(self, field)
            if not 0 < low <= high:
                raise MdpfnError(field, (low, high), "it must be (low, high) with 0 < low ≤ high", "correct the range")
        if len(self.behaviours) != len(BEHAVIOURS) or min(self.behaviours) < 0 or not sum(self.behaviours) > 0:
            limit = f"it must hold shares of {', '.join(BEHAVIOURS)}"
            raise MdpfnError("behaviours", self.behaviours, limit, "give four numbers")
        if self.slots < 1:
            raise MdpfnError("slots", self.slots, "it must be at least 1", "correct the configuration")


@dataclass(eq=False)
class Life:
    """One MDP, its solution, who lives in it, and what was observed so far."""

    number: int  # all randomness of its beginning follows from it
    mdp: TabularMDP
    solution: Solution
    behaviour: Behaviour
    told: Told
    reports: bool  # whether terminations are reported and end episodes
    again: bool  # whether an episode that ended early is followed by another at once
    steps: int
    episodes_left: int
    count: Floats  # (stored transitions,) how often each was observed
    reward_sum: Floats  # (pairs,)
    largest: float = 0.0  # largest |reward| observed


def begin(rng: np.random.Generator, number: int, mdp: TabularMDP, config: LifeConfig) -> Life:
    """A new life in this MDP. Where pairs are visited at random, all of its data comes at once."""
    shares = np.array(config.behaviours)
    behaviour = BEHAVIOURS[int(rng.choice(len(BEHAVIOURS), p=shares / shares.sum()))]
    low, high = -np.inf, np.inf
    if rng.random() < config.range_known:
        slack = rng.uniform(1, 2) if rng.random() < 0.3 else 1.0
        noise = 3 * float(mdp.reward_std.max())
        ends = slack * float(mdp.outcome_reward.min() - noise), slack * float(mdp.outcome_reward.max() + noise)
        low, high = min(ends), max(ends)
    life = Life(
        number=number,
        mdp=mdp,
        solution=solve(mdp),
        behaviour=behaviour,
        told=Told.of(mdp.discount, (low, high)),
        reports=rng.random() >= config.unreported,
        again=rng.random() < 0.5,
        steps=round(log_uniform(rng, *config.steps)),
        episodes_left=1 if behaviour == "coverage" else round(log_uniform(rng, *config.episodes)),
        count=np.zeros(mdp.transition.nnz),
        reward_sum=np.zeros(mdp.n_states * mdp.n_actions),
    )
    if behaviour == "coverage":
        cover(rng, life, log_uniform(rng, *config.budget))
    return life


def cover(rng: np.random.Generator, life: Life, budget: float) -> None:
    """Observe Poisson(budget) visits of every pair that is not of a terminal state whose end is reported."""
    count, reward_sum, largest = visit_pairs(rng, life.mdp, budget, reports=life.reports)
    life.count += count
    life.reward_sum += reward_sum
    life.largest = max(life.largest, largest)


def visit_pairs(
    rng: np.random.Generator, mdp: TabularMDP, budget: float, *, reports: bool
) -> tuple[Floats, Floats, float]:
    """How often each stored transition was seen, Σ r of each pair, and the largest |r|, in Poisson(budget) visits each.

    Pairs of terminal states are not visited if terminations are reported: nobody goes on from there.
    """
    p = mdp.transition
    n_visits = rng.poisson(budget, p.shape[0])
    if reports:
        n_visits[np.repeat(mdp.terminal, mdp.n_actions)] = 0
    row = np.repeat(np.arange(p.shape[0]), np.diff(p.indptr))
    visit = np.repeat(np.arange(p.shape[0]), n_visits)
    entry = draw_entries(rng, p.data.cumsum(), p.indptr, visit)
    reward = mdp.outcome_reward[entry] + mdp.reward_std.reshape(-1)[visit] * rng.standard_normal(len(visit))
    count = np.bincount(entry, minlength=p.nnz).astype(np.float64)
    return count, sums_by(row[entry], reward, p.shape[0]), float(np.abs(reward).max(initial=0.0))


def draw_entries(rng: np.random.Generator, cumulative: Floats, start: Ints, row: Ints) -> Ints:
    """(n,) one stored entry for each of these rows, where all rows sum to 1 and `cumulative` runs through all."""
    entry = np.searchsorted(cumulative, row + rng.random(len(row)), side="right")
    return np.clip(entry, start[row], start[row + 1] - 1)


class Crowd:
    """Some lives side by side: their states in one axis, their pairs in another, their transitions in a third."""

    def __init__(self, lives: list[Life]) -> None:
        self.lives = lives
        self.batch = MDPBatch.of([life.mdp for life in lives])
        self.entry_start = offsets_of(np.array([life.mdp.transition.nnz for life in lives]))
        self.state_start = offsets_of(self.batch.n_states)
        self.pair_start = offsets_of(self.batch.n_pairs)
        self.terminal = np.concatenate([life.mdp.terminal for life in lives])

    def statistics(self) -> StatisticsBatch:
        """What was observed in these lives."""
        count = np.concatenate([life.count for life in self.lives])
        reports = np.repeat(np.array([life.reports for life in self.lives]), self.batch.n_states)
        ends = (self.terminal & reports)[self.batch.transition.indices]
        told = self.told()
        possible = np.maximum(np.abs(told.reward_low), np.abs(told.reward_high))
        seen = np.array([life.largest for life in self.lives])
        scale = np.where(np.isfinite(possible) & (possible > 0), possible, np.where(seen > 0, seen, 1.0))
        reward_sum = np.concatenate([life.reward_sum for life in self.lives])
        return observed(self.batch, count, reward_sum, count * ends, scale)

    def told(self) -> Told:
        """What is known of these lives beforehand."""
        return Told.concatenate([life.told for life in self.lives])

    def live(self, rng: np.random.Generator, policy: Floats) -> None:
        """One episode of every life by `policy` (pairs,), the probability of an action in its state."""
        batch, n = self.batch, len(self.lives)
        each = np.arange(n)
        choices, outcomes = policy.cumsum(), batch.transition.data.cumsum()
        starts = np.concatenate([life.mdp.start for life in self.lives]).cumsum()
        first_pair = np.append(batch.first_pair, self.pair_start[-1])
        outcome_reward = np.concatenate([life.mdp.outcome_reward for life in self.lives])
        std = np.concatenate([life.mdp.reward_std.reshape(-1) for life in self.lives])
        steps, reports, again = (
            np.array([getattr(life, f) for life in self.lives]) for f in ("steps", "reports", "again")
        )
        count, reward_sum = np.zeros(self.entry_start[-1]), np.zeros(self.pair_start[-1])
        largest = np.array([life.largest for life in self.lives])
        noisy = bool(std.any())
        state = draw_entries(rng, starts, self.state_start, each)
        alive = each
        for step in range(int(steps.max())):
            alive = alive[steps[alive] > step]
            if len(alive) == 0:
                break
            pair = draw_entries(rng, choices, first_pair, state[alive])
            entry = draw_entries(rng, outcomes, batch.transition.indptr, pair)
            reward = outcome_reward[entry]
            if noisy:
                reward = reward + std[pair] * rng.standard_normal(len(pair))
            count[entry] += 1  # lives share no entries
            reward_sum[pair] += reward
            largest[alive] = np.maximum(largest[alive], np.abs(reward))
            state[alive] = batch.transition.indices[entry]
            over = alive[self.terminal[state[alive]] & reports[alive]]
            if len(over):
                state[over] = draw_entries(rng, starts, self.state_start, over)
                alive = np.setdiff1d(alive, over[~again[over]], assume_unique=True)
        for i, life in enumerate(self.lives):
            life.count += count[self.entry_start[i] : self.entry_start[i + 1]]
            life.reward_sum += reward_sum[self.pair_start[i] : self.pair_start[i + 1]]
            life.largest = float(largest[i])
            life.episodes_left -= 1
