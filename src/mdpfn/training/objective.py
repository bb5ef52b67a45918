"""What training minimizes: cross-entropy to the Boltzmann-optimal policy of each sampled MDP (A.5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mdpfn.arrays import Floats
from mdpfn.exact import optimal_q_batch
from mdpfn.mdp import MDPBatch
from mdpfn.solvers import boltzmann_policy

TARGET_TOLERANCE = 1e-5  # of Q*/ρ: far below the target temperature, and half the sweeps of 1e-9


def target_policy(batch: MDPBatch, temperature: float) -> Floats:
    """(pairs,) π*_τ(a | s) = softmax_a(Q*(s, a) / (ρ τ)) with ρ = max |r| of the MDP (A.2, A.5)."""
    scale = batch.reward_scale
    q = optimal_q_batch(batch, TARGET_TOLERANCE * float(scale.min()))
    return boltzmann_policy(q, batch.first_pair, temperature * scale[batch.pair_mdp])


@dataclass(frozen=True)
class Loss:
    """The objective and its diagnostics, averaged over states."""

    cross_entropy: Tensor
    entropy: float  # of the target: the floor of the cross-entropy

    @property
    def kl(self) -> float:
        """KL(π*_τ ‖ π_θ), a diagnostic."""
        return float(self.cross_entropy.detach()) - self.entropy


def policy_loss(logits: Tensor, target: Floats, n_states: np.ndarray, n_actions: np.ndarray) -> Loss:
    """−Σ_a π*_τ(a | s) log π_θ(a | s), averaged over all states of the batch (equation 3)."""
    width = int(n_actions.max())
    actions = np.repeat(n_actions, n_states)
    valid = torch.from_numpy(np.arange(width) < actions[:, None]).to(logits.device)
    rows = logits.new_full(valid.shape, -torch.inf).masked_scatter(valid, logits)
    log_policy = rows.log_softmax(dim=1)[valid]
    weights = torch.from_numpy(target).to(logits)
    cross_entropy = -(weights * log_policy).sum() / len(actions)
    entropy = -float(np.sum(target * np.log(np.maximum(target, 1e-300)))) / len(actions)
    return Loss(cross_entropy, entropy)
