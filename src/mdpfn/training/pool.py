"""A pool of lives: every training step meets some of them, then lets them live one episode more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mdpfn.absorbing import with_absorbing
from mdpfn.arrays import Bools, Floats
from mdpfn.estimates import CURIOUS, OPTIMISTIC, estimate
from mdpfn.layout import Layout
from mdpfn.mdp import TabularMDP
from mdpfn.network.features import Inputs, plain_features, planned_features
from mdpfn.network.network import Answer
from mdpfn.network.packing import UNKNOWN, assemble
from mdpfn.outlook import MIXING_TEMPERATURE
from mdpfn.solvers import boltzmann_policy, greedy_value
from mdpfn.training.lives import Crowd, Life, LifeConfig, begin
from mdpfn.training.objective import ObjectiveConfig, log_policy, quantile_loss, return_gradient

Sampler = Callable[[np.random.Generator], TabularMDP]


class Meeting:
    """Some lives as the network meets them, and what it should have said."""

    def __init__(self, crowd: Crowd, temperature: float, inputs: Inputs = "planned") -> None:
        self.crowd = crowd
        self.z = crowd.statistics()
        known = with_absorbing(self.z)
        layout, told = Layout.of(known), crowd.told()
        self.estimates = estimate(known, told, layout)
        self.known = known
        if inputs == "plain":
            features = plain_features(known, layout)
        else:
            features = planned_features(known, layout, told, self.estimates)
        self.tokens = assemble(known, layout, features)
        batch = crowd.batch
        self.q = np.concatenate([life.solution.q.reshape(-1) for life in crowd.lives])
        self.open = ~np.repeat(crowd.terminal, batch.n_actions[batch.state_mdp])  # pairs in which a choice matters
        self.state_weight = ~crowd.terminal / np.sqrt(batch.n_states)[batch.state_mdp]
        state = np.repeat(np.arange(len(batch.first_pair)), batch.n_actions[batch.state_mdp])
        self.state = state
        advantage = greedy_value(self.q, batch.first_pair)[state] - self.q
        pairs = np.bincount(batch.pair_mdp, weights=self.open)
        typical = np.bincount(batch.pair_mdp, weights=advantage * self.open) / np.maximum(pairs, 1)
        self.target = boltzmann_policy(
            self.q, batch.first_pair, temperature * np.maximum(typical, 1e-9)[batch.pair_mdp]
        )

    def loss(
        self, answer: Answer, levels: tuple[float, ...], weights: ObjectiveConfig
    ) -> tuple[Tensor, dict[str, float], Floats]:
        """The objective, its parts for people to look at, and the policy (pairs,)."""
        batch = self.crowd.batch
        log_pi = log_policy(answer.policy_logits, batch.n_states, batch.n_actions)
        exploiting = log_policy(
            answer.policy_logits / weights.exploiting_temperature, batch.n_states, batch.n_actions
        ).exp()
        weight = (self.state_weight / self.state_weight.sum())[self.state]
        target = torch.from_numpy(self.target * weight).to(log_pi)
        cross_entropy = -(target * log_pi).sum()
        floor = -float(np.sum(self.target * weight * np.log(np.maximum(self.target, 1e-300))))
        gradient, score = self.return_gradients(exploiting.detach().double().cpu().numpy())
        lost = -(torch.from_numpy(gradient).to(exploiting) * exploiting).sum() / len(self.crowd.lives)
        total = weights.cross_entropy * cross_entropy + weights.lost_return * lost
        parts = {"kl": float(cross_entropy.detach()) - floor, "score": score}
        if levels:
            truth = torch.from_numpy(self.scaled_q).to(log_pi)
            pinball = quantile_loss(answer.q_quantiles, truth, levels)
            counted = torch.from_numpy(weight * self.open / batch.n_actions[batch.pair_mdp]).to(log_pi)
            quantiles = (counted * pinball).sum()
            total = total + weights.quantiles * quantiles
            parts["pinball"] = float(quantiles.detach())
        return total, parts, log_pi.detach().double().exp().cpu().numpy()

    @property
    def scaled_q(self) -> Floats:
        """(pairs,) asinh(Q* / reward scale): what the quantiles are of."""
        return np.arcsinh(self.q / self.z.reward_scale[self.crowd.batch.pair_mdp])

    def return_gradients(self, policy: Floats) -> tuple[Floats, float]:
        """(pairs,) of all lives, and the mean clipped score of `policy` (pairs,)."""
        gradients, scores = [], []
        for life, start in zip(self.crowd.lives, self.crowd.pair_start, strict=False):
            shape = life.mdp.reward.shape
            mine = policy[start : start + shape[0] * shape[1]].reshape(shape)
            gradient, score = return_gradient(life.solution, life.mdp.reward, life.mdp.start, mine)
            gradients.append(gradient.reshape(-1))
            scores.append(np.clip(score, 0, 1))
        return np.concatenate(gradients), float(np.mean(scores))

    def acting_policy(self, policy: Floats) -> Floats:
        """(pairs,) what is done next in each life, given the network's `policy` (pairs,)."""
        batch = self.crowd.batch
        uniform = 1 / batch.n_actions[batch.pair_mdp]
        kind = np.array([life.behaviour for life in self.crowd.lives])[batch.pair_mdp]
        optimistic, curious = (
            greedy_among_ties(self.estimates.q_table(self.known, planner), batch.first_pair)
            for planner in (OPTIMISTIC, CURIOUS)
        )
        odd = np.array([life.episodes_left % 2 for life in self.crowd.lives], dtype=bool)[batch.pair_mdp]
        exploring = np.where(odd, optimistic, curious)
        chosen = np.where(kind == "exploring", exploring, np.where(kind == "policy", policy, uniform))
        return 0.95 * chosen + 0.05 * uniform

    def greedy_score(self, scores: Floats) -> float:
        """The mean clipped score of taking the best actions by `scores` (pairs,)."""
        return self.return_gradients(greedy_among_ties(scores, self.crowd.batch.first_pair))[1]

    def exploiting_score(self, logits: Floats) -> float:
        """The mean clipped score of a network that says `logits` (pairs,): of what it exploits by at use.

        Where actions look alike each is taken equally often, so that their numbering does not matter.
        """
        first_pair = self.crowd.batch.first_pair
        greedy = greedy_among_ties(logits, first_pair)
        mixed = boltzmann_policy(logits, first_pair, MIXING_TEMPERATURE)
        return self.return_gradients(np.where(self.tokens.logit_kind.numpy() == UNKNOWN, mixed, greedy))[1]

    def certain_score(self) -> float:
        """The mean clipped score of the certainty-equivalent plan: what the network has to beat."""
        return self.greedy_score(self.estimates.certain_table(self.known))


def greedy_among_ties(q: Floats, first_pair: np.ndarray, tolerance: float = 1e-6) -> Floats:
    """(pairs,) equal probability on the best actions of each state."""
    state = np.repeat(np.arange(len(first_pair)), np.diff(np.append(first_pair, len(q))))
    best = greedy_value(q, first_pair)[state]
    top: Bools = q >= best - tolerance * (1 + np.abs(best))
    return top / np.add.reduceat(top.astype(np.float64), first_pair)[state]


class Pool:
    """Lives of one process. A life that is over makes room for a new one."""

    def __init__(self, config: LifeConfig, sampler: Sampler, seed: list[int]) -> None:
        self.config, self.sampler, self.seed = config, sampler, seed
        self.lives: list[Life] = []
        self.n_begun = 0
        self.refill()
        ages = np.random.default_rng(seed)
        for life in self.lives:  # not all of the same age
            life.episodes_left = int(ages.integers(1, life.episodes_left + 1))

    def refill(self) -> None:
        """Replace what is over."""
        self.lives = [life for life in self.lives if life.episodes_left > 0]
        for number in range(self.n_begun, self.n_begun + self.config.slots - len(self.lives)):
            self.lives.append(self._begin(number))
            self.n_begun += 1

    def _begin(self, number: int) -> Life:
        rng = np.random.default_rng([*self.seed, number])
        return begin(rng, number, self.sampler(rng), self.config)

    def meet(self, rng: np.random.Generator, n: int, temperature: float, inputs: Inputs = "planned") -> Meeting:
        """Some of the lives, at random."""
        chosen = rng.choice(len(self.lives), size=n, replace=False)
        return Meeting(Crowd([self.lives[i] for i in chosen]), temperature, inputs)

    def go_on(self, rng: np.random.Generator, meeting: Meeting, policy: Floats) -> None:
        """Let everybody just met live one episode more, given the network's `policy` (pairs,)."""
        meeting.crowd.live(rng, meeting.acting_policy(policy))
        self.refill()

    def state(self) -> dict[str, Tensor]:
        """All that cannot be drawn again."""
        arrays = {
            "n_begun": np.array([self.n_begun]),
            "number": np.array([life.number for life in self.lives]),
            "episodes_left": np.array([life.episodes_left for life in self.lives]),
            "largest": np.array([life.largest for life in self.lives]),
            "count": np.concatenate([life.count for life in self.lives]),
            "reward_sum": np.concatenate([life.reward_sum for life in self.lives]),
        }
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take over a state: the same lives, as old as they were."""
        self.n_begun = int(state["n_begun"])
        self.lives = [self._begin(number) for number in state["number"].tolist()]
        counts = torch.split(state["count"], [len(life.count) for life in self.lives])
        sums = torch.split(state["reward_sum"], [len(life.reward_sum) for life in self.lives])
        ages = zip(state["episodes_left"].tolist(), state["largest"].tolist(), strict=True)
        for life, count, reward_sum, (left, largest) in zip(self.lives, counts, sums, ages, strict=True):
            life.count, life.reward_sum = count.numpy().copy(), reward_sum.numpy().copy()
            life.episodes_left, life.largest = left, largest
