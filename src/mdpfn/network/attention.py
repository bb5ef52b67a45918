"""Multi-head successor attention over lists of (pair, successor) edges."""

import torch
from torch import Tensor


def successor_attention(
    query: Tensor, key: Tensor, value: Tensor, edge_pair: Tensor, edge_state: Tensor, edge_bias: Tensor, n_heads: int
) -> Tensor:
    """(pairs, d) m⁽ⁱ⁾_sa = Σ_s' softmax_s'(α⁽ⁱ⁾_sa) v⁽ⁱ⁾_s' for every head i, the heads side by side.

    α⁽ⁱ⁾_sa(s') = ⟨q⁽ⁱ⁾_sa, k⁽ⁱ⁾_s'⟩ / √d_h + β log P̂(s' | s, a) (equation 2), where the query comes already divided by
    √d_h and `edge_bias` holds the second term. Successors without an edge have P̂ = 0: their weight is exactly 0.
    """
    n_pairs, width = query.shape
    heads = (-1, n_heads, width // n_heads)
    logits = (query.index_select(0, edge_pair) * key.index_select(0, edge_state)).view(heads).sum(-1)
    weights = segment_softmax(logits + edge_bias[:, None], edge_pair, n_pairs)
    messages = weights[:, :, None] * value.index_select(0, edge_state).view(heads)
    return query.new_zeros(n_pairs, width).index_add_(0, edge_pair, messages.view(-1, width))


def segment_softmax(logits: Tensor, segment: Tensor, n_segments: int) -> Tensor:
    """(edges, heads) softmax over the edges of each segment, separately per head."""
    index = segment[:, None].expand_as(logits)
    with torch.no_grad():  # the shift by the maximum cancels: it needs no gradient
        top = logits.new_full((n_segments, logits.shape[1]), -torch.inf).scatter_reduce(0, index, logits, "amax")
    weight = (logits - top.index_select(0, segment)).exp()
    total = logits.new_zeros(n_segments, logits.shape[1]).index_add_(0, segment, weight)
    return weight / total.index_select(0, segment)
