"""Training examples as in the paper: sampled MDPs, their target policies, and statistics as input."""

from dataclasses import dataclass

import numpy as np
import torch

from mdpfn.arrays import Floats
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.model.mdp import MDPBatch
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.packing import Tokens, pack
from mdpfn.network.tensors import tensors_of
from mdpfn.prior.paper import sample_mdps
from mdpfn.training.config import TrainingConfig
from mdpfn.training.objective import Loss, policy_loss, target_policy
from mdpfn.training.visits import explore, sample_budget

VALIDATION_STEP = 2**32 - 1  # no training step reaches this number
SHARED_RANK = 2**32 - 1  # no process has this rank
CHUNK = 128  # held-out MDPs in a batch


@dataclass(frozen=True, eq=False)
class Examples:
    """A batch of MDPs as the network meets them."""

    tokens: Tokens[np.ndarray]
    target: Floats  # (pairs,) π*_τ

    def loss(self, network: torch.nn.Module, depth: int | None = None) -> Loss:
        """The objective on these examples."""
        tokens = tensors_of(self.tokens, network)
        return policy_loss(network(tokens, depth).policy_logits, self.target, tokens.n_states, tokens.n_actions)


def sample_examples(rng: np.random.Generator, config: TrainingConfig, n_mdps: int) -> Examples:
    """`n_mdps` fresh examples."""
    batch = MDPBatch.of(sample_mdps(rng, n_mdps, config.prior))
    statistics = explore(rng, batch, sample_budget(rng, n_mdps, *config.budget))
    tokens = pack(EmpiricalModel.of(statistics), most_visits=config.network.most_visits)
    return Examples(tokens, target_policy(batch, config.target_temperature))


def step_rng(config: TrainingConfig, step: int, rank: int) -> np.random.Generator:
    """The randomness of one step of one process: a run can stop and go on anywhere without a trace."""
    return np.random.default_rng([config.seed, step, rank])


def shared_rng(config: TrainingConfig, step: int) -> np.random.Generator:
    """The randomness of one step that all processes must draw alike."""
    return step_rng(config, step, SHARED_RANK)


def validation_examples(config: TrainingConfig) -> list[Examples]:
    """The held-out MDPs of a configuration, the same for every run with its prior and seed."""
    rng = step_rng(config, VALIDATION_STEP, 0)
    sizes = [min(CHUNK, config.validation_mdps - done) for done in range(0, config.validation_mdps, CHUNK)]
    return [sample_examples(rng, config, size) for size in sizes]


@torch.no_grad()
def validate(network: PolicyNetwork, examples: list[Examples]) -> dict[str, float]:
    """Loss and KL on held-out MDPs, averaged over all their states."""
    was_training = network.training
    network.eval()
    losses = [e.loss(network) for e in examples]
    network.train(was_training)
    weight = np.array([e.tokens.n_states.sum() for e in examples], dtype=np.float64)
    weight /= weight.sum()
    return {
        "validation_loss": float(weight @ [float(loss.cross_entropy) for loss in losses]),
        "validation_kl": float(weight @ [loss.kl for loss in losses]),
    }
