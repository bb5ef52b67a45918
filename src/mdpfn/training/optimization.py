"""Optimizers, the learning-rate schedule, the moving average of the weights, and their state as flat tensors."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from mdpfn.training.config import TrainingConfig

ADAM_BETAS = (0.9, 0.98)


def make_optimizers(network: nn.Module, config: TrainingConfig) -> list[torch.optim.Optimizer]:
    """AdamW for everything, or Muon for the hidden matrices and AdamW for the rest."""
    rate, decay = config.learning_rate, config.weight_decay
    parameters = dict(network.named_parameters())
    matrices: dict[str, Tensor] = {}
    if config.optimizer == "muon":
        # Orthogonalized updates are for maps between hidden spaces, not for input features or scalar outputs.
        matrices = {n: p for n, p in parameters.items() if p.ndim == 2 and min(p.shape) > 2}
    rest = [p for n, p in parameters.items() if n not in matrices]
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(rest, lr=rate, betas=ADAM_BETAS, weight_decay=decay, fused=True)
    ]
    if matrices:
        optimizers.append(
            torch.optim.Muon(list(matrices.values()), lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw")
        )
    return optimizers


def learning_rate_factor(step: int, progress: float, config: TrainingConfig) -> float:
    """Linear warm-up, then cosine from 1 to `final_learning_rate` as `progress` goes from 0 to 1 (A.5)."""
    warmup = min(1.0, (step + 1) / max(config.warmup_steps, 1))
    cosine = 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
    return warmup * (config.final_learning_rate + (1 - config.final_learning_rate) * cosine)


def moving_average(network: nn.Module, decay: float) -> AveragedModel:
    """θ̄ ← decay · θ̄ + (1 − decay) · θ at every update, from the first θ on; its memory is shorter while it is young."""

    def update(averaged: Any, current: Any, n_averaged: Tensor | int) -> None:
        n = int(n_averaged)
        torch._foreach_lerp_(averaged, current, 1 - min(decay, (n + 1) / (n + 10)))

    average = AveragedModel(network, multi_avg_fn=update)
    average.n_averaged += 1
    return average


def optimizer_tensors(optimizers: Iterable[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """All state of the optimizers, under names that say where it belongs."""
    return {
        f"{i}.{parameter}.{key}": value
        for i, optimizer in enumerate(optimizers)
        for parameter, state in optimizer.state_dict()["state"].items()
        for key, value in state.items()
    }


def restore_optimizers(optimizers: list[torch.optim.Optimizer], tensors: dict[str, Tensor]) -> None:
    """Restore the state that `optimizer_tensors` returned."""
    for i, optimizer in enumerate(optimizers):
        state: dict[int, dict[str, Any]] = {}
        for name, value in tensors.items():
            owner, parameter, key = name.split(".", 2)
            if int(owner) == i:
                state.setdefault(int(parameter), {})[key] = value.clone()
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
