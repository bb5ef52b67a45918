"""What training minimizes: the paper's cross-entropy to the optimal policy (A.5), lost return, quantiles of Q*."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mdpfn.arrays import Floats, Ints
from mdpfn.model.exact import Solution, optimal_q_batch
from mdpfn.model.mdp import MDPBatch
from mdpfn.model.solvers import boltzmann_policy

TARGET_TOLERANCE = 1e-5  # of Q*/ρ: far below the target temperature, and half the sweeps of 1e-9
LARGEST_PULL = 3.0  # of the return loss of one MDP on its policy: a cliff must not outweigh everything else


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


def log_policy(logits: Tensor, n_states: Ints, n_actions: Ints) -> Tensor:
    """(pairs,) log π_θ(a | s) of every pair."""
    width = int(n_actions.max())
    actions = np.repeat(n_actions, n_states)
    valid = torch.from_numpy(np.arange(width) < actions[:, None]).to(logits.device)
    rows = logits.new_full(valid.shape, -torch.inf).masked_scatter(valid, logits)
    return rows.log_softmax(dim=1)[valid]


def policy_loss(logits: Tensor, target: Floats, n_states: Ints, n_actions: Ints) -> Loss:
    """−Σ_a π*_τ(a | s) log π_θ(a | s), averaged over all states of the batch (equation 3)."""
    total_states = int(n_states.sum())
    weights = torch.from_numpy(target).to(logits)
    cross_entropy = -(weights * log_policy(logits, n_states, n_actions)).sum() / total_states
    entropy = -float(np.sum(target * np.log(np.maximum(target, 1e-300)))) / total_states
    return Loss(cross_entropy, entropy)


def return_gradient(solution: Solution, reward: Floats, start: Floats, policy: Floats) -> tuple[Floats, float]:
    """(S, A) d/dπ of the normalized score of a policy (S, A), and that score.

    J(π) = μᵀ V^π has the gradient d^π(s) Q^π(s, a), where d^π = μᵀ (I − γ P_π)⁻¹; as rows of π sum to 1, any
    V(s) may be taken off Q.
    """
    p_pi = np.einsum("sa,sat->st", policy, solution.transition)
    resolvent = np.linalg.inv(np.eye(len(start)) - p_pi)
    value = resolvent @ (policy * reward).sum(axis=1)
    advantage = reward + solution.transition @ value - value[:, None]
    gradient = (start @ resolvent)[:, None] * advantage / solution.gap
    pull = np.abs(gradient).max(axis=1).sum()
    return gradient * min(1.0, LARGEST_PULL / max(pull, 1e-12)), float(
        start @ value - solution.random_value
    ) / solution.gap


def quantile_loss(quantiles: Tensor, target: Tensor, levels: tuple[float, ...]) -> Tensor:
    """(pairs,) Σ_q ρ_q(y − y_q) with ρ_q(u) = max(q u, (q − 1) u) (Koenker and Bassett 1978)."""
    error = target[:, None] - quantiles
    level = torch.tensor(levels).to(error)
    return torch.maximum(level * error, (level - 1) * error).sum(dim=1)
