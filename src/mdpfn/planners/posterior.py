"""Models that may be the true one: what the data says of P and r, and the prior of what the data does not tell.

Rows of P ~ Dirichlet(N); means of rewards lie around r̂ with the standard error that rewards had, or move with the
successors where these explain them (`planners.arrival`). With probability w ~ Beta(c, N) a pair does what was not seen
yet (`planners.unseen`); a pair that was never visited does so always. It is then worth what the prior says of Q*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints, offsets_of
from mdpfn.evidence import PairTable
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.model.policy_values import policy_values
from mdpfn.planners.arrival import arrival_rewards
from mdpfn.planners.classical import CERTAINTY_EQUIVALENT, estimate
from mdpfn.planners.problem_info import ProblemInfo, RewardRange
from mdpfn.planners.unseen import unseen_weights

SMALLEST_SHARE = 1e-12  # of a transition that was observed, in a drawn model


@dataclass(frozen=True, eq=False)
class Models:
    """Some models over the same pairs and successors."""

    table: PairTable  # a row for every pair of every state that episodes go on from, unless masks forbid it
    share: Floats  # (models, observed) probability of each transition …
    ends: Floats  # (models, observed) … and that nothing follows it, beside what its reward holds already
    reward: Floats  # (models, rows) mean reward

    def __len__(self) -> int:
        return len(self.reward)

    def optimal_q(self, discount: float) -> Floats:
        """(models, S, A) Q* of every model."""
        z, n = self.table, len(self)
        shape = (n, int(z.n_states[0]), int(z.n_actions[0]))
        visits = z.n_visits[z.transition_row]
        tables = [
            replace(
                z, transition_count=share * visits, n_terminated=share * visits * ends, reward_sum=reward * z.n_visits
            )
            for share, ends, reward in zip(self.share, self.ends, self.reward, strict=True)
        ]
        model = EmpiricalModel.of(PairTable.concatenate(tables))
        info = ProblemInfo.concatenate([ProblemInfo.of(discount)] * n)
        q = estimate(model, info, (CERTAINTY_EQUIVALENT,)).q_table(CERTAINTY_EQUIVALENT)
        scaled: Floats = q.reshape(shape) * z.reward_scale[0]
        return scaled

    def policy_value(self, policy: Floats, discount: float) -> Floats:
        """(models, S) V of π, (S, A) or one of its own for every model."""
        return policy_values(self.table, policy, self.share * (1 - self.ends), self.reward, discount)

    def backup(self, value: Floats, discount: float) -> Floats:
        """(models, rows) r + γ P V, for V (models, S) or (1, S)."""
        z = self.table
        later = self.share * (1 - self.ends) * value[:, z.successor]
        return self.reward + discount * np.add.reduceat(later, offsets_of(z.n_successors)[:-1], axis=1)

    def policy_q(self, value: Floats, discount: float) -> Floats:
        """(models, S, A) Q of the policy with this V (models, S); 0 for pairs without a row."""
        z = self.table
        q = np.zeros((len(self), int(z.n_states[0]) * int(z.n_actions[0])))
        q[:, z.pair] = self.backup(value, discount)
        return q.reshape(len(self), int(z.n_states[0]), -1)


@dataclass(frozen=True, eq=False)
class ModelPosterior:
    """Where the true model lies."""

    table: PairTable  # a row for every pair, as in `Models`
    unvisited: Bools  # (rows,)
    prior: Floats  # (rows, levels) quantiles of Q* by the prior
    levels: Floats  # (levels,)
    unseen: Floats  # (rows,) c, 0 for pairs that were never visited
    arrival_reward: Floats  # (S,) what arriving in a state pays …
    on_arrival: Bools  # (rows,) … for pairs whose rewards are explained by it
    rewards: RewardRange  # the least and the largest reward that there can be, or that was seen: means lie between

    @classmethod
    def of(
        cls,
        observed: PairTable,
        prior: Floats,
        levels: tuple[float, ...],
        rewards: RewardRange = (-np.inf, np.inf),
    ) -> ModelPosterior:
        """The posterior of the only MDP of a table, given quantiles (S, A, levels) of Q* by the prior."""
        table, unvisited = _completed(observed)
        arrival_reward, explained = arrival_rewards(observed)
        on_arrival, unseen = np.zeros(len(table.pair), dtype=bool), np.zeros(len(table.pair))
        on_arrival[~unvisited], unseen[~unvisited] = explained, unseen_weights(observed)
        return cls(
            table=table,
            unvisited=unvisited,
            prior=prior.reshape(-1, prior.shape[-1])[table.pair],
            levels=np.array(levels),
            unseen=unseen,
            arrival_reward=arrival_reward,
            on_arrival=on_arrival,
            rewards=rewards,
        )

    @cached_property
    def reward_error(self) -> Floats:
        """(rows,) the standard error of r̂(s, a); with few visits, of what rewards of all pairs vary by counts too.

        What arriving explains is no error, of no pair: in a world that pays on arrival alone, rewards are known.
        """
        z, n = self.table, self.table.n_visits
        deviation = np.maximum(z.reward_square_sum - n * z.mean_reward**2, 0)
        deviation[self.on_arrival] = 0.0
        more = np.maximum(n - 1, 0) * ~self.unvisited
        pooled = deviation.sum() / max(float(more.sum()), 1.0)
        return np.where(self.unvisited | self.on_arrival, 0.0, np.sqrt((deviation + pooled) / n / n))

    def prior_values(self) -> Floats:
        """(S,) what the best action of a state is worth at the lowest level of the prior; 0 where none is."""
        lowest = np.full(int(self.table.n_states[0]), -np.inf)
        np.maximum.at(lowest, self.table.state, self.prior[:, 0])
        return np.where(np.isfinite(lowest), lowest, 0.0)

    def expected(self, levels: Floats) -> Models:
        """The mean of the data's models, once for each of some levels of the prior."""
        z, n = self.table, len(levels)
        unseen = np.where(self.unvisited, 1.0, self.unseen / (self.unseen + z.n_visits))
        shares, unseens, rewards = (np.tile(each, (n, 1)) for each in (z.successor_probs, unseen, z.mean_reward))
        return self._models(shares, unseens, rewards, _at(self.prior, self.levels, levels))

    def drawn(self, rng: np.random.Generator, n: int, *, median_prior: bool = False) -> Models:
        """Draws. The prior says too much or too little of all pairs alike; or, with `median_prior`, its median."""
        z, row = self.table, self.table.transition_row
        weight = rng.standard_gamma(z.transition_count, size=(n, len(row)))
        total = np.add.reduceat(weight, offsets_of(z.n_successors)[:-1], axis=1)
        share = np.maximum(weight / total[:, row], SMALLEST_SHARE)
        unseen = np.tile(self.unvisited.astype(np.float64), (n, 1))
        rare = self.unseen > 0
        unseen[:, rare] = rng.beta(self.unseen[rare], z.n_visits[rare], size=(n, int(rare.sum())))
        reward = (z.mean_reward + self.reward_error * rng.standard_normal((n, len(z.pair)))).clip(*self.rewards)
        if self.on_arrival.any():
            more = (share - z.successor_probs) * self.arrival_reward[z.successor]
            moved = z.mean_reward + np.add.reduceat(more, offsets_of(z.n_successors)[:-1], axis=1)
            reward = np.where(self.on_arrival, moved, reward)  # nothing else makes these vary
        level = np.full(n, 0.5) if median_prior else rng.permutation((np.arange(n) + 0.5) / n)
        return self._models(share, unseen, reward, _at(self.prior, self.levels, level))

    def _models(self, share: Floats, unseen: Floats, reward: Floats, otherwise: Floats) -> Models:
        z = self.table
        ends = 1 - z.going_on * (1 - unseen)[:, z.transition_row]
        return Models(z, share, ends, (1 - unseen) * reward + unseen * otherwise)


def ignorant_prior(observed: PairTable, discount: float) -> tuple[Floats, tuple[float, ...]]:
    """Quantiles (S, A, levels) and their levels where no network gives any: all pairs are worth what is usual."""
    n_states, n_actions = int(observed.n_states[0]), int(observed.n_actions[0])
    found = estimate(EmpiricalModel.of(observed), ProblemInfo.of(discount), (CERTAINTY_EQUIVALENT,))
    usual = float(found.unvisited_q[0, 0] * observed.reward_scale[0])
    return np.full((n_states, n_actions, 3), usual), (0.05, 0.5, 0.95)


def _completed(z: PairTable) -> tuple[PairTable, Bools]:
    """The table with rows for pairs that were never visited, each of one visit that ended where it began."""
    n_actions = int(z.n_actions[0])
    missing = np.repeat(~z.terminal_mask(), n_actions)
    missing[z.pair] = missing[z.forbidden] = False
    new = np.flatnonzero(missing)
    pair = np.concatenate([z.pair, new])
    order = np.argsort(pair, kind="stable")
    row = np.argsort(order)[np.concatenate([z.transition_row, len(z.pair) + np.arange(len(new))])]
    by_row = np.argsort(row, kind="stable")
    once, nothing = np.ones(len(new)), np.zeros(len(new))

    def joined(name: str, more: Floats | Ints, to: Ints) -> np.ndarray:
        return np.concatenate([getattr(z, name), more])[to]

    of_pair = {"n_visits": once, "reward_sum": nothing, "reward_square_sum": nothing, "duration": once}
    of_transition: dict[str, Floats | Ints] = {
        "transition_count": once,
        "n_terminated": once,
        "successor": new // n_actions,
    }
    return replace(
        z,
        pair_mdp=np.zeros(len(pair), dtype=np.int64),
        pair=pair[order],
        n_successors=joined("n_successors", np.ones(len(new), dtype=np.int64), order),
        **{name: joined(name, more, order) for name, more in of_pair.items()},
        **{name: joined(name, more, by_row) for name, more in of_transition.items()},
    ), order >= len(z.pair)


def _at(quantiles: Floats, levels: Floats, wanted: Floats) -> Floats:
    """(n, rows) quantiles (rows, levels) at the levels `wanted` (n,), at the outermost ones beyond them."""
    inside = np.clip(wanted, levels[0], levels[-1])
    above = np.clip(np.searchsorted(levels, inside), 1, max(len(levels) - 1, 1))
    share = (inside - levels[above - 1]) / (levels[above] - levels[above - 1])
    at: Floats = ((1 - share) * quantiles[:, above - 1] + share * quantiles[:, above]).T
    return at
