"""One propagation step h⁽ℓ⁾ → h⁽ℓ⁺¹⁾ of A.4: the weights as it uses them, and the step as plain tensor operations."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from mdpfn.network.attention import successor_attention
from mdpfn.network.dropout import dropout
from mdpfn.network.packing import Tokens


class StepWeights(NamedTuple):
    """The weights of a step, split by input: W [a; b] = W_a a + W_b b, and W_m W_o is one matrix."""

    source: Tensor  # (2 d, d) W_k and W_v
    source_bias: Tensor
    single: Tensor  # (d, d) W_m W_o W_v: what a state says to pairs that attend to it alone
    single_bias: Tensor
    query: Tensor  # (d, d) of h_sa, divided by √d_h
    message: Tensor  # (d, d) W_m W_o: from attended values straight into φ_sa
    pair_hidden: Tensor  # (d, d) of h_sa
    state_hidden: Tensor  # (d, d) of h_s
    state_hidden_bias: Tensor
    state_mean: Tensor  # (d, d) of mean_a h_sa
    pair_out: Tensor
    pair_out_bias: Tensor
    pair_gain: Tensor
    pair_shift: Tensor
    state_out: Tensor
    state_out_bias: Tensor
    state_gain: Tensor
    state_shift: Tensor


class StepConstants(NamedTuple):
    """The parts of hidden layer, query and attention logits that are the same in every step."""

    hidden: Tensor  # (pairs, d) of e_sa, with the bias
    query: Tensor  # (attending pairs, d) of e_sa, with the bias, divided by √d_h
    edge_bias: Tensor  # (edges,) β log P̂ and the multiplicity


def plain_step(
    states: Tensor,
    pairs: Tensor,
    tokens: Tokens[Tensor],
    w: StepWeights,
    constants: StepConstants,
    n_heads: int,
    rate: float,
) -> tuple[Tensor, Tensor]:
    """h_s and h_sa after the step; `rate` is that of dropout."""
    n_single = len(tokens.single_successor)
    key, value = torch.chunk(F.linear(states, w.source, w.source_bias), 2, dim=1)
    query = torch.addmm(constants.query, pairs[n_single:], w.query.T)
    attended = successor_attention(query, key, value, tokens.edge_pair, tokens.edge_state, constants.edge_bias, n_heads)
    # A single-successor pair attends to one state only, so its message is computed for every state and looked up.
    single = F.linear(states, w.single, w.single_bias).index_select(0, tokens.single_successor)
    messages = torch.cat([single, attended @ w.message.T])
    hidden = torch.addmm(constants.hidden, pairs, w.pair_hidden.T) + messages
    change = F.linear(_active(hidden, rate), w.pair_out, w.pair_out_bias)
    pairs = F.layer_norm(pairs + change, w.pair_gain.shape, w.pair_gain, w.pair_shift)
    hidden = F.linear(states, w.state_hidden, w.state_hidden_bias)
    hidden = torch.addmm(hidden, mean_over_actions(pairs, tokens), w.state_mean.T)
    change = F.linear(_active(hidden, rate), w.state_out, w.state_out_bias)
    return F.layer_norm(states + change, w.state_gain.shape, w.state_gain, w.state_shift), pairs


def _active(hidden: Tensor, rate: float) -> Tensor:
    activation = F.gelu(hidden)
    return dropout(activation, rate) if rate else activation


def mean_over_actions(pairs: Tensor, tokens: Tokens[Tensor]) -> Tensor:
    """(states, d) 1/|A| Σ_a h_sa of every state token."""
    n_unvisited = len(tokens.n_states)
    visited, unvisited = torch.split(pairs, [len(pairs) - n_unvisited, n_unvisited])
    total = pairs.new_zeros(len(tokens.state_mdp), pairs.shape[1]).index_add_(0, tokens.pair_state, visited)
    untried = tokens.unvisited_weight[:, None] * unvisited.index_select(0, tokens.state_mdp)
    return torch.addcmul(untried, total, tokens.visited_weight[:, None])
