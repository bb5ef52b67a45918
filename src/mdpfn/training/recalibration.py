"""Recalibration of the quantiles: biases of the head with which every level has its nominal coverage on held-out tasks.

Training weighs large problems and old tasks more than a user would. Seven biases are too few to overfit.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mdpfn.arrays import sums_by
from mdpfn.network.features import CERTAINTY_EQUIVALENT_VALUE, DOUBT
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.tensors import tensors_of
from mdpfn.training.pool import TrainingBatch

LARGEST_SHIFT = 8.0  # of a bias
HALVINGS = 32


@torch.no_grad()
def recalibrate(network: PolicyNetwork, training_batches: Sequence[TrainingBatch]) -> None:
    """Move the biases of the quantiles, from the median outwards; every task has the same weight."""
    levels = network.config.quantiles
    middle = levels.index(0.5)
    raw, rows, truth, weight = (
        torch.cat(parts) for parts in zip(*(_outputs(network, m) for m in training_batches), strict=True)
    )
    weight /= weight.sum()
    shift = torch.zeros(len(levels), dtype=torch.float64)
    for i in [*range(middle, len(levels)), *range(middle - 1, -1, -1)]:
        low, high = -LARGEST_SHIFT, LARGEST_SHIFT
        for _ in range(HALVINGS):
            shift[i] = (low + high) / 2
            covered = float(weight @ (truth <= network.quantiles(raw + shift, rows)[:, i]).double())
            rises = i >= middle  # below the median, larger outputs are larger steps down
            low, high = (float(shift[i]), high) if (covered < levels[i]) == rises else (low, float(shift[i]))
    network.head.out.bias[1:] += shift.to(network.head.out.bias)


def _outputs(network: PolicyNetwork, training_batch: TrainingBatch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The outputs of the quantile head before sorting, its row features, the truth, and the weight of every pair."""
    quantiles = network(tensors_of(training_batch.tokens, network)).q_quantiles.double().cpu()
    rows = torch.from_numpy(training_batch.tokens.row_features[training_batch.tokens.logit_row])
    offset = (quantiles - rows[:, CERTAINTY_EQUIVALENT_VALUE, None]) / rows[:, DOUBT, None].clamp_min(1e-6)
    step = torch.diff(offset, dim=1).clamp_min(1e-12)
    undone = step + torch.log(-torch.expm1(-step))  # of softplus
    middle = network.config.quantiles.index(0.5)
    raw = torch.cat([undone[:, :middle], offset[:, middle : middle + 1], undone[:, middle:]], dim=1)
    owner = training_batch.rollout.batch.pair_mdp
    n_open = sums_by(owner, training_batch.open)
    weight = training_batch.open / np.maximum(n_open, 1)[owner]
    return raw, rows, torch.from_numpy(training_batch.scaled_q), torch.from_numpy(weight)
