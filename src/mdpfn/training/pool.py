"""A pool of tasks: every training step takes some of them, then lets each run one episode more."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mdpfn.arrays import Bools, Floats, sums_by
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.model.mdp import TabularMDP
from mdpfn.model.solvers import boltzmann_policy, greedy_value
from mdpfn.network.config import NetworkConfig
from mdpfn.network.features import plain_features, planned_features
from mdpfn.network.packing import UNKNOWN, Answer, assemble
from mdpfn.planners.classical import OPTIMISTIC, PURE_EXPLORATION, estimate
from mdpfn.planners.output import MIXING_TEMPERATURE
from mdpfn.training.config import ObjectiveConfig
from mdpfn.training.earning import earning_policy
from mdpfn.training.objective import log_policy, quantile_loss, return_gradient
from mdpfn.training.tasks import Rollout, Task, TaskConfig, begin

Sampler = Callable[[np.random.Generator], TabularMDP]
READS_PLANS = NetworkConfig(inputs="planned")
TIE = 1e-6  # of a value: less does not tell actions apart


class TrainingBatch:
    """Some tasks as input of the network, with their targets."""

    def __init__(self, rollout: Rollout, temperature: float, network: NetworkConfig = READS_PLANS) -> None:
        self.rollout = rollout
        plain = network.inputs == "plain"
        self.table = rollout.table() if plain else rollout.table_as_read()
        model, info = EmpiricalModel.of(self.table), rollout.info()
        self.estimates = estimate(model, info)
        features = plain_features(model, network.most_visits) if plain else planned_features(info, self.estimates)
        self.tokens = assemble(model, features)
        batch = rollout.batch
        self.q = np.concatenate([task.solution.q.reshape(-1) for task in rollout.tasks])
        self.open = ~np.repeat(rollout.terminal, batch.n_actions[batch.state_mdp])  # pairs in which a choice matters
        self.state_weight = ~rollout.terminal / np.sqrt(batch.n_states)[batch.state_mdp]
        state = np.repeat(np.arange(len(batch.first_pair)), batch.n_actions[batch.state_mdp])
        self.state = state
        advantage = greedy_value(self.q, batch.first_pair)[state] - self.q
        pairs = sums_by(batch.pair_mdp, self.open)
        typical = sums_by(batch.pair_mdp, advantage * self.open) / np.maximum(pairs, 1)
        self.target = boltzmann_policy(
            self.q, batch.first_pair, temperature * np.maximum(typical, 1e-9)[batch.pair_mdp]
        )

    def loss(
        self, answer: Answer[Tensor], levels: tuple[float, ...], weights: ObjectiveConfig
    ) -> tuple[Tensor, dict[str, float], Floats]:
        """The objective, its parts as metrics, and the policy (pairs,)."""
        batch = self.rollout.batch
        log_pi = log_policy(answer.policy_logits, batch.n_states, batch.n_actions)
        exploiting = log_policy(
            answer.policy_logits / weights.exploiting_temperature, batch.n_states, batch.n_actions
        ).exp()
        weight = (self.state_weight / self.state_weight.sum())[self.state]
        target = torch.from_numpy(self.target * weight).to(log_pi)
        cross_entropy = -(target * log_pi).sum()
        floor = -float(np.sum(self.target * weight * np.log(np.maximum(self.target, 1e-300))))
        gradient, score = self.return_gradients(exploiting.detach().double().cpu().numpy())
        lost = -(torch.from_numpy(gradient).to(exploiting) * exploiting).sum() / len(self.rollout.tasks)
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
        return np.arcsinh(self.q / self.table.reward_scale[self.rollout.batch.pair_mdp])

    def return_gradients(self, policy: Floats) -> tuple[Floats, float]:
        """(pairs,) gradients of the score of `policy` (pairs,) in all tasks, and the mean of the clipped scores."""
        gradients, scores = [], []
        for task, start in zip(self.rollout.tasks, self.rollout.pair_start, strict=False):
            shape = task.mdp.reward.shape
            mine = policy[start : start + shape[0] * shape[1]].reshape(shape)
            gradient, score = return_gradient(task.solution, task.mdp.reward, task.mdp.start, mine)
            gradients.append(gradient.reshape(-1))
            scores.append(np.clip(score, 0, 1))
        return np.concatenate(gradients), float(np.mean(scores))

    def acting_policy(self, policy: Floats) -> Floats:
        """(pairs,) the policy that each task acts by next, given the network's `policy` (pairs,)."""
        batch = self.rollout.batch
        uniform = 1 / batch.n_actions[batch.pair_mdp]
        kind = np.array([task.behaviour for task in self.rollout.tasks])[batch.pair_mdp]
        optimistic, curious = (
            greedy_among_ties(self.estimates.q_table(planner), batch.first_pair)
            for planner in (OPTIMISTIC, PURE_EXPLORATION)
        )
        odd = np.array([task.episodes_left % 2 for task in self.rollout.tasks], dtype=bool)[batch.pair_mdp]
        exploring = np.where(odd, optimistic, curious)
        chosen = np.where(kind == "exploring", exploring, np.where(kind == "policy", policy, uniform))
        for i, task in enumerate(self.rollout.tasks):
            if task.behaviour == "earning":
                mine = slice(self.rollout.pair_start[i], self.rollout.pair_start[i + 1])
                episode = task.episodes - task.episodes_left
                chosen[mine] = earning_policy(self.table.part(i), task.info, episode, task.episodes)
        return 0.95 * chosen + 0.05 * uniform

    def greedy_score(self, scores: Floats) -> float:
        """The mean clipped score of taking the best actions by `scores` (pairs,)."""
        return self.return_gradients(greedy_among_ties(scores, self.rollout.batch.first_pair))[1]

    def exploiting_score(self, logits: Floats) -> float:
        """The mean clipped score of the policy that is used to exploit with these `logits` (pairs,).

        Where actions look alike each is taken equally often, so that their numbering does not matter.
        """
        first_pair = self.rollout.batch.first_pair
        greedy = greedy_among_ties(logits, first_pair)
        mixed = boltzmann_policy(logits, first_pair, MIXING_TEMPERATURE)
        return self.return_gradients(np.where(self.tokens.logit_kind == UNKNOWN, mixed, greedy))[1]

    def certainty_equivalent_score(self) -> float:
        """The mean clipped score of the certainty-equivalent plan: what the network has to beat."""
        return self.greedy_score(self.estimates.certainty_equivalent_table())


def greedy_among_ties(q: Floats, first_pair: np.ndarray) -> Floats:
    """(pairs,) equal probability on the best actions of each state."""
    state = np.repeat(np.arange(len(first_pair)), np.diff(np.append(first_pair, len(q))))
    best = greedy_value(q, first_pair)[state]
    top: Bools = q >= best - TIE * (1 + np.abs(best))
    return top / np.add.reduceat(top.astype(np.float64), first_pair)[state]


class TaskPool:
    """Tasks of one process. One that is over makes room for a new one."""

    def __init__(self, config: TaskConfig, sampler: Sampler, seed: list[int]) -> None:
        self.config, self.sampler, self.seed = config, sampler, seed
        self.tasks: list[Task] = []
        self.n_begun = 0
        self.refill()
        ages = np.random.default_rng(seed)
        for task in self.tasks:  # not all of the same age
            task.episodes_left = int(ages.integers(1, task.episodes_left + 1))

    def refill(self) -> None:
        """Replace tasks that are over by new ones."""
        self.tasks = [task for task in self.tasks if task.episodes_left > 0]
        for number in range(self.n_begun, self.n_begun + self.config.slots - len(self.tasks)):
            self.tasks.append(self._begin(number))
            self.n_begun += 1

    def _begin(self, number: int) -> Task:
        rng = np.random.default_rng([*self.seed, number])
        return begin(rng, number, self.sampler(rng), self.config)

    def sample(
        self, rng: np.random.Generator, n: int, temperature: float, network: NetworkConfig = READS_PLANS
    ) -> TrainingBatch:
        """Some of the tasks, at random."""
        chosen = rng.choice(len(self.tasks), size=n, replace=False)
        return TrainingBatch(Rollout([self.tasks[i] for i in chosen]), temperature, network)

    def advance(self, rng: np.random.Generator, training_batch: TrainingBatch, policy: Floats) -> None:
        """Let every task of a batch run one episode more, given the network's `policy` (pairs,)."""
        training_batch.rollout.run_episode(rng, training_batch.acting_policy(policy))
        self.refill()

    def state(self) -> dict[str, Tensor]:
        """The state of the tasks that cannot be drawn again from their seeds."""
        arrays = {
            "n_begun": np.array([self.n_begun]),
            "number": np.array([task.number for task in self.tasks]),
            "episodes_left": np.array([task.episodes_left for task in self.tasks]),
            "largest": np.array([task.largest for task in self.tasks]),
            "refused": np.array([task.refused for task in self.tasks]),
            "count": np.concatenate([task.count for task in self.tasks]),
            "reward_sum": np.concatenate([task.reward_sum for task in self.tasks]),
            "reward_square_sum": np.concatenate([task.reward_square_sum for task in self.tasks]),
        }
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Restore the tasks of a state."""
        self.n_begun = int(state["n_begun"])
        self.tasks = [self._begin(number) for number in state["number"].tolist()]
        for name in ("count", "reward_sum", "reward_square_sum"):
            sizes = [len(getattr(task, name)) for task in self.tasks]
            for task, part in zip(self.tasks, torch.split(state[name], sizes), strict=True):
                setattr(task, name, part.numpy().copy())
        for name in ("episodes_left", "largest", "refused"):
            for task, value in zip(self.tasks, state[name].tolist(), strict=True):
                setattr(task, name, value)
