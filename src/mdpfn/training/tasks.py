"""Tasks: MDPs of the prior in which data is gathered, a little more each time the network sees them."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from mdpfn.arrays import Floats, Ints, offsets_of, sums_by
from mdpfn.checks import check_range, check_types
from mdpfn.errors import MdpfnError
from mdpfn.evidence import PairTable
from mdpfn.evidence.pooling import pooled
from mdpfn.model.exact import Solution, solve
from mdpfn.model.mdp import MDPBatch, TabularMDP
from mdpfn.planners.foretold import foretold
from mdpfn.planners.problem_info import ProblemInfo
from mdpfn.planners.slip import Slip, SlipConfig
from mdpfn.prior.sizes import log_uniform
from mdpfn.training.visits import observed

Behaviour = Literal["coverage", "uniform", "exploring", "policy", "earning"]
ASKED_AGAIN = 3.0  # times the visits at which slip was not believed
SLIP = SlipConfig(most_work=60_000)  # what takes longest is left out, which at use is fitted too
BEHAVIOURS: tuple[Behaviour, ...] = ("coverage", "uniform", "exploring", "policy", "earning")


@dataclass(frozen=True)
class TaskConfig:
    """How data is gathered in training."""

    slots: int = 256  # tasks at the same time, in every process
    episodes: tuple[int, int] = (1, 64)  # of one task, log-uniform
    steps: tuple[int, int] = (10, 100)  # of one episode at most, log-uniform
    budget: tuple[float, float] = (0.1, 30.0)  # mean visits per pair, where pairs are visited at random
    behaviours: tuple[float, ...] = (0.15, 0.45, 0.3, 0.1, 0.0)  # shares of those above
    range_known: float = 0.4  # share of tasks in which the range of rewards is told
    unreported: float = 0.2  # share in which episodes run on through terminal states, as in the paper's rollouts

    def __post_init__(self) -> None:
        check_types(self)
        for field in ("episodes", "steps", "budget"):
            check_range(field, getattr(self, field))
        if len(self.behaviours) != len(BEHAVIOURS) or min(self.behaviours) < 0 or not sum(self.behaviours) > 0:
            limit = f"it must hold shares of {', '.join(BEHAVIOURS)}"
            raise MdpfnError("behaviours", self.behaviours, limit, "give five numbers")
        if self.slots < 1:
            raise MdpfnError("slots", self.slots, "it must be at least 1", "correct the configuration")


@dataclass(eq=False)
class Task:
    """One MDP with its solution, the behaviour policy, and the observations so far."""

    number: int  # all randomness of its beginning follows from it
    mdp: TabularMDP
    solution: Solution
    behaviour: Behaviour
    info: ProblemInfo
    reports: bool  # whether terminations are reported and end episodes
    again: bool  # whether an episode that ended early is followed by another at once
    steps: int
    episodes: int  # in all
    episodes_left: int
    count: Floats  # (stored transitions,) how often each was observed
    reward_sum: Floats  # (pairs,)
    reward_square_sum: Floats  # (pairs,)
    largest: float = 0.0  # largest |reward| observed
    refused: float = 0.0  # visits in all when slip was last fitted and not believed

    def as_read(self, z: PairTable) -> PairTable:
        """The observed table as planners and network read it at use: pooled, and with what slip foretells.

        Slip that was not believed is fitted again when three times as much was seen: it takes longer than all the rest.
        """
        if not (z.n_successors > 1).any():
            return z
        shared, n_visits = pooled(z), float(z.n_visits.sum())
        if n_visits < ASKED_AGAIN * self.refused:
            return shared
        slip = Slip.of(shared, z, SLIP)
        if not slip.visits:
            self.refused = n_visits
        return foretold(shared, slip)


def begin(rng: np.random.Generator, number: int, mdp: TabularMDP, config: TaskConfig) -> Task:
    """A new task with this MDP. Where pairs are visited at random, all of its data comes at once."""
    shares = np.array(config.behaviours)
    behaviour = BEHAVIOURS[int(rng.choice(len(BEHAVIOURS), p=shares / shares.sum()))]
    low, high = -np.inf, np.inf
    if rng.random() < config.range_known:
        slack = rng.uniform(1, 2) if rng.random() < 0.3 else 1.0
        noise = 3 * float(mdp.reward_std.max())
        ends = slack * float(mdp.outcome_reward.min() - noise), slack * float(mdp.outcome_reward.max() + noise)
        low, high = min(ends), max(ends)
    reports, again = rng.random() >= config.unreported, rng.random() < 0.5
    steps = round(log_uniform(rng, *config.steps))
    episodes = 1 if behaviour == "coverage" else round(log_uniform(rng, *config.episodes))
    task = Task(
        number=number,
        mdp=mdp,
        solution=solve(mdp),
        behaviour=behaviour,
        info=ProblemInfo.of(mdp.discount, (low, high)),
        reports=reports,
        again=again,
        steps=steps,
        episodes=episodes,
        episodes_left=episodes,
        count=np.zeros(mdp.transition.nnz),
        reward_sum=np.zeros(mdp.n_states * mdp.n_actions),
        reward_square_sum=np.zeros(mdp.n_states * mdp.n_actions),
    )
    if behaviour == "coverage":
        cover(rng, task, log_uniform(rng, *config.budget))
    return task


def cover(rng: np.random.Generator, task: Task, budget: float) -> None:
    """Observe Poisson(budget) visits of every pair that is not of a terminal state whose end is reported."""
    seen = visit_pairs(rng, task.mdp, budget, reports=task.reports)
    task.count += seen.seen
    task.reward_sum += seen.reward_sum
    task.reward_square_sum += seen.reward_square_sum
    task.largest = max(task.largest, seen.largest)


class Visits(NamedTuple):
    """The observations of some visits of pairs."""

    seen: Floats  # (stored transitions,) how often each was
    reward_sum: Floats  # (pairs,)
    reward_square_sum: Floats  # (pairs,)
    largest: float  # largest |r|


def visit_pairs(rng: np.random.Generator, mdp: TabularMDP, budget: float, *, reports: bool) -> Visits:
    """Poisson(budget) visits of every pair.

    Pairs of terminal states are not visited if terminations are reported: nobody goes on from there.
    """
    p = mdp.transition
    n_visits = rng.poisson(budget, p.shape[0])
    if reports:
        n_visits[np.repeat(mdp.terminal, mdp.n_actions)] = 0
    visit = np.repeat(np.arange(p.shape[0]), n_visits)
    entry = draw_entries(rng, p.data.cumsum(), p.indptr, visit)
    reward = mdp.outcome_reward[entry] + mdp.reward_std.reshape(-1)[visit] * rng.standard_normal(len(visit))
    count = np.bincount(entry, minlength=p.nnz).astype(np.float64)
    sums, squares = (sums_by(visit, values, p.shape[0]) for values in (reward, reward**2))
    return Visits(count, sums, squares, float(np.abs(reward).max(initial=0.0)))


def draw_entries(rng: np.random.Generator, cumulative: Floats, start: Ints, row: Ints) -> Ints:
    """(n,) one stored entry for each of these rows, where all rows sum to 1 and `cumulative` runs through all."""
    entry = np.searchsorted(cumulative, row + rng.random(len(row)), side="right")
    return np.clip(entry, start[row], start[row + 1] - 1)


class Rollout:
    """Some tasks side by side: their states in one axis, their pairs in another, their transitions in a third."""

    def __init__(self, tasks: list[Task]) -> None:
        self.tasks = tasks
        self.batch = MDPBatch.of([task.mdp for task in tasks])
        self.entry_start = offsets_of(np.array([task.mdp.transition.nnz for task in tasks]))
        self.state_start = offsets_of(self.batch.n_states)
        self.pair_start = offsets_of(self.batch.n_pairs)
        self.terminal = np.concatenate([task.mdp.terminal for task in tasks])

    def table(self) -> PairTable:
        """The table of everything observed in these tasks."""
        count = np.concatenate([task.count for task in self.tasks])
        reports = np.repeat(np.array([task.reports for task in self.tasks]), self.batch.n_states)
        ends = (self.terminal & reports)[self.batch.transition.indices]
        info = self.info()
        scale = info.reward_scale(np.array([task.largest for task in self.tasks]))
        sums = np.concatenate([task.reward_sum for task in self.tasks])
        squares = np.concatenate([task.reward_square_sum for task in self.tasks])
        return observed(self.batch, count, sums, squares, count * ends, scale)

    def table_as_read(self) -> PairTable:
        """The same table as planners and network read it at use."""
        observed = self.table()
        return PairTable.concatenate([task.as_read(observed.part(i)) for i, task in enumerate(self.tasks)])

    def info(self) -> ProblemInfo:
        """What is known of these tasks beforehand."""
        return ProblemInfo.concatenate([task.info for task in self.tasks])

    def run_episode(self, rng: np.random.Generator, policy: Floats) -> None:
        """One episode of every task by `policy` (pairs,), the probability of an action in its state."""
        batch, n = self.batch, len(self.tasks)
        each = np.arange(n)
        choices, outcomes = policy.cumsum(), batch.transition.data.cumsum()
        starts = np.concatenate([task.mdp.start for task in self.tasks]).cumsum()
        first_pair = np.append(batch.first_pair, self.pair_start[-1])
        outcome_reward = np.concatenate([task.mdp.outcome_reward for task in self.tasks])
        std = np.concatenate([task.mdp.reward_std.reshape(-1) for task in self.tasks])
        steps, reports, again = (
            np.array([getattr(task, f) for task in self.tasks]) for f in ("steps", "reports", "again")
        )
        count, (sums, squares) = np.zeros(self.entry_start[-1]), np.zeros((2, self.pair_start[-1]))
        largest = np.array([task.largest for task in self.tasks])
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
            count[entry] += 1  # tasks share no entries
            sums[pair] += reward
            squares[pair] += reward**2
            largest[alive] = np.maximum(largest[alive], np.abs(reward))
            state[alive] = batch.transition.indices[entry]
            over = alive[self.terminal[state[alive]] & reports[alive]]
            if len(over):
                state[over] = draw_entries(rng, starts, self.state_start, over)
                alive = np.setdiff1d(alive, over[~again[over]], assume_unique=True)
        for i, task in enumerate(self.tasks):
            task.count += count[self.entry_start[i] : self.entry_start[i + 1]]
            mine = slice(self.pair_start[i], self.pair_start[i + 1])
            task.reward_sum += sums[mine]
            task.reward_square_sum += squares[mine]
            task.largest = float(largest[i])
            task.episodes_left -= 1
