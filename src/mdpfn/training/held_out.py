"""Held-out tasks, and scores of the network on them."""

from dataclasses import replace

import numpy as np
import torch

from mdpfn.network.config import NetworkConfig
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.tensors import tensors_of
from mdpfn.training.config import ObjectiveConfig
from mdpfn.training.pool import READS_PLANS, Sampler, TaskPool, TrainingBatch
from mdpfn.training.tasks import Rollout, Task, TaskConfig

CHUNK = 64


def held_out_batches(
    config: TaskConfig,
    sampler: Sampler,
    seed: list[int],
    n_tasks: int,
    temperature: float,
    network: NetworkConfig = READS_PLANS,
) -> list[TrainingBatch]:
    """Tasks of all ages, whose data was not gathered by the network."""
    coverage, uniform, exploring, _, earning = config.behaviours
    alone = replace(config, slots=n_tasks, behaviours=(coverage, uniform, exploring, 0.0, earning))
    tasks = TaskPool(alone, sampler, seed).tasks
    rng = np.random.default_rng(seed)
    training_batches = []
    for first in range(0, n_tasks, CHUNK):
        mine = tasks[first : first + CHUNK]
        _run_to_the_end(rng, mine, temperature)
        training_batches.append(TrainingBatch(Rollout(mine), temperature, network))
    return training_batches


def _run_to_the_end(rng: np.random.Generator, tasks: list[Task], temperature: float) -> None:
    """Let every task run to its last episode but one."""
    while young := [task for task in tasks if task.episodes_left > 1]:
        training_batch = TrainingBatch(Rollout(young), temperature)
        training_batch.rollout.run_episode(rng, training_batch.acting_policy(np.zeros(len(training_batch.q))))


@torch.no_grad()
def validate_batches(
    network: PolicyNetwork, training_batches: list[TrainingBatch], objective: ObjectiveConfig
) -> dict[str, float]:
    """Means over all tasks: the scores of the policy and of its best actions, losses."""
    was_training = network.training
    network.eval()
    found: list[dict[str, float]] = []
    for training_batch in training_batches:
        answer = network(tensors_of(training_batch.tokens, network))
        loss, parts, _ = training_batch.loss(answer, network.config.quantiles, objective)
        parts = {"validation_loss": float(loss)} | {f"validation_{name}": value for name, value in parts.items()}
        parts["validation_greedy_score"] = training_batch.exploiting_score(answer.policy_logits.double().cpu().numpy())
        parts["certain_score"] = training_batch.certainty_equivalent_score()
        found.append(parts)
    network.train(was_training)
    weight = np.array([len(training_batch.rollout.tasks) for training_batch in training_batches], dtype=np.float64)
    weight /= weight.sum()
    return {name: float(weight @ [parts[name] for parts in found]) for name in found[0]}
