"""Sources of training examples: fresh MDPs in every step, as in the paper, or a pool of tasks that continue."""

from abc import ABC, abstractmethod
from functools import partial

import numpy as np
from torch import Tensor, nn

from mdpfn.errors import MdpfnError
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.tensors import tensors_of
from mdpfn.prior.world import sample_world
from mdpfn.training.batches import VALIDATION_STEP, sample_examples, validate, validation_examples
from mdpfn.training.config import TrainingConfig
from mdpfn.training.held_out import held_out_batches, validate_batches
from mdpfn.training.pool import TaskPool
from mdpfn.training.recalibration import recalibrate

Metrics = dict[str, float]


class Source(ABC):
    """A supply of examples for one process."""

    @abstractmethod
    def loss(self, rng: np.random.Generator, forward: nn.Module, depth: int, progress: float) -> tuple[Tensor, Metrics]:
        """The objective on the next examples, and metrics."""

    @abstractmethod
    def validate(self, network: PolicyNetwork) -> Metrics:
        """Metrics of the network on held-out MDPs, which are always the same."""

    def finish(self, network: PolicyNetwork) -> None:  # noqa: B027
        """Finish a network before it is written as a model."""

    def state(self) -> dict[str, Tensor]:
        """The state to keep in a checkpoint; empty if there is none."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:  # noqa: B027
        """Take over the state of a checkpoint."""


class PriorExamples(Source):
    """New MDPs and new data in every step (A.5). It has no state."""

    def __init__(self, config: TrainingConfig, n_mdps: int) -> None:
        self.config, self.n_mdps = config, n_mdps
        self.held_out = validation_examples(config)

    def loss(self, rng: np.random.Generator, forward: nn.Module, depth: int, progress: float) -> tuple[Tensor, Metrics]:
        """Cross-entropy on fresh MDPs."""
        loss = sample_examples(rng, self.config, self.n_mdps).loss(forward, depth)
        return loss.cross_entropy, {"kl": loss.kl}

    def validate(self, network: PolicyNetwork) -> Metrics:
        """Loss and KL on held-out MDPs."""
        return validate(network, self.held_out)


class TaskExamples(Source):
    """Tasks of a pool: each is seen as many times as it has episodes, with more data each time."""

    def __init__(self, config: TrainingConfig, n_mdps: int, rank: int) -> None:
        assert config.tasks is not None
        if config.tasks.slots < n_mdps:
            limit = f"every process takes {n_mdps} of them in a step"
            raise MdpfnError("slots", config.tasks.slots, limit, "raise tasks.slots or lower batch_size")
        self.config, self.n_mdps = config, n_mdps
        sampler = partial(sample_world, config=config.world)
        self.pool = TaskPool(config.tasks, sampler, [config.seed, rank])
        self.held_out = held_out_batches(
            config.tasks,
            sampler,
            [config.seed, VALIDATION_STEP],
            config.validation_mdps,
            config.target_temperature,
            config.network,
        )

    def loss(self, rng: np.random.Generator, forward: nn.Module, depth: int, progress: float) -> tuple[Tensor, Metrics]:
        """The objective on some tasks, which then go on for an episode."""
        training_batch = self.pool.sample(rng, self.n_mdps, self.config.target_temperature, self.config.network)
        answer = forward(tensors_of(training_batch.tokens, forward), depth)
        weights = self.config.objective.at(progress)
        loss, parts, policy = training_batch.loss(answer, self.config.network.quantiles, weights)
        self.pool.advance(rng, training_batch, policy)
        return loss, parts

    def validate(self, network: PolicyNetwork) -> Metrics:
        """Scores and losses on held-out tasks."""
        return validate_batches(network, self.held_out, self.config.objective)

    def finish(self, network: PolicyNetwork) -> None:
        """Recalibrate the quantiles on held-out tasks."""
        if self.config.network.quantiles:
            recalibrate(network, self.held_out)

    def state(self) -> dict[str, Tensor]:
        """The tasks as old as they are."""
        return self.pool.state()

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on with the tasks of a checkpoint."""
        self.pool.restore(state)


def make_source(config: TrainingConfig, n_mdps: int, rank: int) -> Source:
    """The source that a configuration asks for, `n_mdps` at a time."""
    return PriorExamples(config, n_mdps) if config.tasks is None else TaskExamples(config, n_mdps, rank)
