"""The policy network: encode pairs, propagate along observed transitions K times, read a policy off (A.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mdpfn.errors import MdpfnError
from mdpfn.network.attention import successor_attention
from mdpfn.network.packing import N_PAIR_FEATURES, Tokens

Step: TypeAlias = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes of the network; the defaults are the paper's."""

    width: int = 256
    n_heads: int = 8
    depth: int = 20  # K: propagation steps; the weights are tied, so any depth runs at use
    transition_bias: float = 1.0  # β
    dropout: float = 0.05

    def __post_init__(self) -> None:
        if self.width % self.n_heads:
            raise MdpfnError(
                "width", self.width, f"it must be divisible by n_heads = {self.n_heads}", "change one of them"
            )
        for field, value in (("width", self.width), ("n_heads", self.n_heads)):
            if value < 1:
                raise MdpfnError(field, value, "it must be at least 1", "give a positive size")
        check_depth(self.depth)
        if not 0 <= self.dropout < 1:
            raise MdpfnError("dropout", self.dropout, "it must lie in [0, 1)", "use a value such as 0.05")


def check_depth(depth: int) -> None:
    """Refuse a number of propagation steps that cannot be run."""
    if depth < 0:
        raise MdpfnError("depth", depth, "it must not be negative", "give the number of propagation steps")


class MLP(nn.Module):
    """Linear, GELU, dropout, linear. `finish` starts behind the first linear layer."""

    def __init__(self, n_in: int, width: int, n_out: int, dropout: float) -> None:
        super().__init__()
        self.hidden = nn.Linear(n_in, width)
        self.out = nn.Linear(width, n_out)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """(n, n_out) of (n, n_in)."""
        return self.finish(self.hidden(x))

    def finish(self, hidden: Tensor) -> Tensor:
        """(n, n_out) of the (n, width) output of the first linear layer."""
        activation: Tensor = F.dropout(F.gelu(hidden), self.dropout, self.training)
        out: Tensor = self.out(activation)
        return out


class PolicyNetwork(nn.Module):
    """Statistics in, policy logits out; equivariant to renaming states and actions.

    W [a; b] = W_a a + W_b b, so every layer that reads a concatenation is applied piece by piece: the piece
    that reads the constant encoding e_sa runs once instead of K times, and W_m W_o is a single matrix.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        d, dropout = config.width, config.dropout
        self.encoder = MLP(N_PAIR_FEATURES, d, d, dropout)  # φ_enc
        self.state_init = MLP(d, d, d, dropout)  # φ_init
        self.query = nn.Linear(2 * d, d)  # W_q [h_sa; e_sa]
        self.key = nn.Linear(d, d)  # W_k
        self.value = nn.Linear(d, d)  # W_v
        self.output = nn.Linear(d, d)  # W_o
        self.pair_update = MLP(3 * d, d, d, dropout)  # φ_sa [h_sa; m_sa; e_sa]
        self.state_update = MLP(2 * d, d, d, dropout)  # φ_s [h_s; mean_a h_sa]
        self.pair_norm = nn.LayerNorm(d)
        self.state_norm = nn.LayerNorm(d)
        self.head = MLP(3 * d, d, 1, dropout)  # φ_head [h_s; h_sa; e_sa]

    def forward(self, tokens: Tokens, depth: int | None = None, transition_bias: float | None = None) -> Tensor:
        """(pairs,) policy logits u(s, a) of every pair of every MDP, MDP after MDP, state after state."""
        depth = self.config.depth if depth is None else depth
        check_depth(depth)
        beta = self.config.transition_bias if transition_bias is None else transition_bias

        settled_code = self.encoder(tokens.settled_features)  # e_sa
        attending_code = self.encoder(tokens.attending_features)
        states = self.state_init(mean_over_actions(settled_code, attending_code, tokens))  # h_s⁽⁰⁾
        settled, attending = settled_code, attending_code  # h_sa⁽⁰⁾ = e_sa

        step = self._propagation(settled_code, attending_code, tokens, beta)
        for _ in range(depth):
            states, settled, attending = step(states, settled, attending)
        return self._readout(states, settled, attending, settled_code, attending_code, tokens)

    def _propagation(self, settled_code: Tensor, attending_code: Tensor, tokens: Tokens, beta: float) -> Step:
        """One propagation step as a function, with all that does not change over the K steps done here."""
        d = self.config.width
        scale = (d // self.config.n_heads) ** -0.5
        query_h, query_e = (self.query.weight * scale).split(d, dim=1)
        update_h, update_m, update_e = self.pair_update.hidden.weight.split(d, dim=1)
        state_h, state_mean = self.state_update.hidden.weight.split(d, dim=1)
        message = update_m @ self.output.weight  # W_m W_o: from attended values straight into φ_sa
        update_bias = self.pair_update.hidden.bias + update_m @ self.output.bias

        settled_constant = F.linear(settled_code, update_e, update_bias)
        attending_constant = torch.cat(
            [
                F.linear(attending_code, update_e, update_bias),
                F.linear(attending_code, query_e, self.query.bias * scale),
            ],
            dim=1,
        )
        attending_weight = torch.cat([update_h, query_h]).T
        # A settled pair attends to one state only, so W_m W_o v_s' is computed per state and looked up.
        state_weight = torch.cat([self.key.weight, self.value.weight, state_h, message @ self.value.weight])
        state_bias = torch.cat([self.key.bias, self.value.bias, self.state_update.hidden.bias, message @ self.value.bias])
        edge_bias = beta * tokens.edge_log_prob + tokens.edge_log_multiplicity

        def step(states: Tensor, settled: Tensor, attending: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            key, value, state_hidden, state_message = F.linear(states, state_weight, state_bias).split(d, dim=1)

            settled_hidden = torch.addmm(settled_constant, settled, update_h.T)
            settled_hidden = settled_hidden + state_message.index_select(0, tokens.settled_successor)
            hidden, query = torch.addmm(attending_constant, attending, attending_weight).split(d, dim=1)
            attended = successor_attention(
                query, key, value, tokens.edge_pair, tokens.edge_state, edge_bias, self.config.n_heads
            )
            attending_hidden = torch.addmm(hidden, attended, message.T)

            settled = self.pair_norm(settled + self.pair_update.finish(settled_hidden))
            attending = self.pair_norm(attending + self.pair_update.finish(attending_hidden))
            mean = mean_over_actions(settled, attending, tokens)
            state_hidden = torch.addmm(state_hidden, mean, state_mean.T)
            states = self.state_norm(states + self.state_update.finish(state_hidden))
            return states, settled, attending

        return step

    def _readout(
        self,
        states: Tensor,
        settled: Tensor,
        attending: Tensor,
        settled_code: Tensor,
        attending_code: Tensor,
        tokens: Tokens,
    ) -> Tensor:
        """(pairs,) φ_head([h_s; h_sa; e_sa]), computed once per distinct row and looked up for every pair."""
        head_s, head_sa, head_e = self.head.hidden.weight.split(self.config.width, dim=1)
        of_state = F.linear(states, head_s, self.head.hidden.bias)
        of_settled = F.linear(settled, head_sa) + F.linear(settled_code, head_e)
        of_attending = F.linear(attending, head_sa) + F.linear(attending_code, head_e)
        n_blank = len(tokens.n_states)
        of_visited, of_blank = of_attending.split([len(of_attending) - n_blank, n_blank])
        rows = torch.cat(
            [
                of_settled + of_state.index_select(0, tokens.settled_state),
                of_visited + of_state.index_select(0, tokens.attending_state),
                of_blank.index_select(0, tokens.state_mdp) + of_state,
            ]
        )
        logits: Tensor = self.head.finish(rows).squeeze(1).index_select(0, tokens.logit_row)
        return logits


def mean_over_actions(settled: Tensor, attending: Tensor, tokens: Tokens) -> Tensor:
    """(states, d) 1/|A| Σ_a h_sa of every state token."""
    n_blank = len(tokens.n_states)
    visited, blank = attending.split([len(attending) - n_blank, n_blank])
    total = settled.new_zeros(len(tokens.state_mdp), settled.shape[1])
    total = total.index_add(0, tokens.settled_state, settled).index_add(0, tokens.attending_state, visited)
    unvisited = tokens.blank_weight[:, None] * blank.index_select(0, tokens.state_mdp)
    return torch.addcmul(unvisited, total, tokens.visited_weight[:, None])
