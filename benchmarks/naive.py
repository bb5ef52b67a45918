"""The network straight from appendix A.4: dense, padded, everything masked. Slow on purpose.

It is the oracle the real network is tested against and the baseline its speed is measured against, so it
uses the same parameters (a `PolicyNetwork`) and none of its code paths.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mdpfn.network.network import PolicyNetwork


def pad_z(
    dense_z: list[Tensor], n_actions: list[int], max_states: int, max_actions: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Z (B, S, A, 2 + S) padded with zeros, state mask (B, S) and action mask (B, A)."""
    batch = len(dense_z)
    z = torch.zeros(batch, max_states, max_actions, 2 + max_states, dtype=dense_z[0].dtype)
    state_mask = torch.zeros(batch, max_states, dtype=torch.bool)
    action_mask = torch.zeros(batch, max_actions, dtype=torch.bool)
    for i, (rows, a) in enumerate(zip(dense_z, n_actions, strict=True)):
        s = rows.shape[1] - 2
        z[i, :s, :a, : 2 + s] = rows.reshape(s, a, 2 + s)
        state_mask[i, :s] = True
        action_mask[i, :a] = True
    return z, state_mask, action_mask


def naive_forward(
    network: PolicyNetwork, z: Tensor, state_mask: Tensor, action_mask: Tensor, depth: int, beta: float = 1.0
) -> Tensor:
    """(B, S, A) policy logits, −1e9 at padded actions."""
    u = naive_outputs(network, z, state_mask, action_mask, depth, beta)[..., 0]
    return u.masked_fill(~action_mask[:, None, :], -1e9)


def naive_outputs(
    network: PolicyNetwork,
    z: Tensor,
    state_mask: Tensor,
    action_mask: Tensor,
    depth: int,
    beta: float = 1.0,
    plans: tuple[Tensor, Tensor, Tensor] | None = None,
    goes_on: Tensor | None = None,
) -> Tensor:
    """(B, S, A, outputs) of the head, anything at padded actions.

    `plans` is what a planned network reads beside Z: of pairs (B, S, A, ·), of states (B, S, ·), and what the head
    reads of pairs (B, S, A, ·). `goes_on` (B, S) tells states that are not terminal.
    """
    batch, n_states, n_actions, _ = z.shape
    of_pair, of_state, of_row = plans or (z[..., :0], z[:, :, 0, :0], z[..., :0])
    width, heads = network.config.width, network.config.n_heads
    valid = (state_mask[:, :, None] & action_mask[:, None, :])[..., None]
    features, p_hat = torch.cat([z[..., :2], of_pair], -1), z[..., 2:]
    real_actions = action_mask.sum(1).to(z.dtype)[:, None, None]

    def mean_over_actions(x: Tensor) -> Tensor:
        return (x * valid).sum(2) / real_actions

    e = network.encoder(features) * valid
    h_sa = e
    h_s = network.state_init(torch.cat([mean_over_actions(e), of_state], -1)) * state_mask[..., None]
    log_p = torch.where(p_hat > 0, p_hat.clamp_min(1e-300 if z.dtype == torch.float64 else 1e-38).log(), -math.inf)
    log_p = torch.where(valid, log_p, 0.0)  # padded rows: anything finite
    log_p = log_p.masked_fill(~state_mask[:, None, None, :], -math.inf)
    for _ in range(depth):
        q = network.query(torch.cat([h_sa, e], -1)).view(batch, n_states, n_actions, heads, -1)
        k = network.key(h_s).view(batch, n_states, heads, -1)
        v = network.value(h_s).view(batch, n_states, heads, -1)
        logits = torch.einsum("bsahd,bnhd->bsahn", q, k) / math.sqrt(width // heads) + beta * log_p[:, :, :, None, :]
        m = torch.einsum("bsahn,bnhd->bsahd", logits.softmax(-1), v).reshape(batch, n_states, n_actions, width)
        m = network.output(m)
        h_sa = network.pair_norm(h_sa + network.pair_update(torch.cat([h_sa, m, e], -1))) * valid
        h_s = network.state_norm(h_s + network.state_update(torch.cat([h_s, mean_over_actions(h_sa)], -1)))
        h_s = h_s * state_mask[..., None]
    h_of_pair = h_s[:, :, None, :].expand(-1, -1, n_actions, -1)
    out: Tensor = network.head(torch.cat([h_of_pair, h_sa, e, of_row], -1))
    if network.plan_residual is not None:
        out = out + network.plan_residual(of_row, network.plan_residual.trust(h_of_pair))
    if network.action_pooling is not None:
        assert goes_on is not None
        tried = features[..., 0] > 0
        told_by = tried & goes_on[:, :, None]
        n = told_by.sum(1).to(z.dtype)
        total = (torch.cat([h_sa, of_row], -1) * told_by[..., None]).sum(1)
        shift = network.action_pooling.shift(torch.cat([total / n.clamp_min(1)[..., None], n.log1p()[..., None]], -1))
        untried, unknown = shift[:, None].unbind(-1)
        added = torch.where(tried.any(2, keepdim=True), untried, unknown).masked_fill(tried, 0.0)
        out[..., 0] += added
    return out
