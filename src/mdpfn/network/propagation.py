"""The K tied propagation steps of A.4 with a written-out gradient, for training on a CPU.

It computes what `step.plain_step` and autograd compute, and wastes less beside the matrix products: nothing
is allocated in the loop, gradients of the tied weights are summed up by the products themselves, and what lies between
two products is one pass over memory (`kernels`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from mdpfn.arrays import offsets_of
from mdpfn.network import kernels
from mdpfn.network.dropout import dropped_places, seeded_generator
from mdpfn.network.packing import Tokens
from mdpfn.network.step import StepWeights


class Graph:
    """The edges of attention and of the means over actions, sorted for the kernels."""

    def __init__(self, tokens: Tokens[Tensor], edge_bias: Tensor) -> None:
        n_visited, n_states = len(tokens.pair_state), len(tokens.state_mdp)
        self.single_states, single = torch.unique(tokens.single_successor, return_inverse=True)
        self.single = single.numpy()  # (single,) place of the only successor among those
        n_attending = n_visited + len(tokens.n_states) - len(self.single)
        edge_pair, owner = tokens.edge_pair.numpy(), tokens.pair_state.numpy()
        by_pair = np.argsort(edge_pair, kind="stable")
        self.edge_start = offsets_of(np.bincount(edge_pair, minlength=n_attending))
        self.edge_state = tokens.edge_state.numpy()[by_pair]
        self.edge_bias = edge_bias.detach().numpy()[by_pair]
        # The mean of a state is over its visited pairs and, for all others, the unvisited pair of its MDP.
        by_state = np.argsort(np.concatenate([owner, np.arange(n_states)]), kind="stable")
        mean_start = offsets_of(np.bincount(owner, minlength=n_states) + 1)
        mean_pair = np.concatenate([np.arange(n_visited), n_visited + tokens.state_mdp.numpy()])[by_state]
        weight = tokens.visited_weight.numpy()[owner], tokens.unvisited_weight.numpy()
        self.mean = mean_start, mean_pair, np.concatenate(weight)[by_state]


class Memory:
    """Buffers that are reused from one training step to the next, as fresh memory is slow."""

    def __init__(self) -> None:
        self.buffers: dict[tuple[str, int], Tensor] = {}
        self.views: dict[tuple[str, int], Tensor] = {}  # of the batch at hand

    def take(self, name: str, number: int, rows: int, like: Tensor) -> Tensor:
        """The buffer of this name and step, for as many rows like those of `like`; at first with anything in it."""
        view = self.views.get((name, number))
        if view is None:
            kept = self.buffers.get((name, number))
            if kept is None or kept.shape[0] < rows or (kept.dtype, kept.shape[1:]) != (like.dtype, like.shape[1:]):
                kept = self.buffers[name, number] = like.new_empty(rows + rows // 4, *like.shape[1:])
            view = self.views[name, number] = kept[:rows]
        return view


_unused: list[Memory] = []  # a pass backward leaves its memory to the next pass forward


class Update:
    """LayerNorm(h + W dropout(GELU(hidden)) + b), the second half of the update of pairs and of states."""

    def __init__(self, name: str, weights: Sequence[Tensor], rate: float, memory: Memory) -> None:
        self.name, self.memory, self.rate = name, memory, rate
        out, self.bias, self.gain, self.shift = weights
        self.out = out / (1 - rate)  # what is not dropped counts for what is
        self.gradients = [torch.zeros_like(weight) for weight in weights]
        self.dropped: dict[int, Tensor] = {}

    def take(self, what: str, number: int, like: Tensor) -> Tensor:
        """A buffer like another tensor."""
        return self.memory.take(f"{self.name} {what}", number, like.shape[0], like)

    def forward(self, number: int, hidden: Tensor, before: Tensor, after: Tensor, rng: np.random.Generator) -> None:
        """Into `after`."""
        active = torch.ops.aten.gelu.out(hidden, out=self.take("active", number, hidden))
        if self.rate:
            self.dropped[number] = dropped_places(rng, active.numel(), self.rate)
            active.view(-1).index_fill_(0, self.dropped[number], 0)
        normal = torch.mm(active, self.out.T, out=self.take("normal", number, hidden))
        deviation = self.take("deviation", number, hidden[:, 0])
        kernels.add_and_normalize(*_arrays(normal, self.bias, before, self.gain, self.shift, deviation, after))

    def backward(self, number: int, hidden: Tensor, d_after: Tensor) -> Tensor:
        """The gradient by `hidden`; that by `before` takes the place of `d_after`."""
        d_out, d_bias, d_gain, d_shift = self.gradients
        active, normal = self.take("active", number, hidden), self.take("normal", number, hidden)
        deviation = self.take("deviation", number, hidden[:, 0])
        kernels.normalize_backward(*_arrays(d_after, normal, self.gain, deviation, d_gain, d_shift, d_bias))
        d_out.addmm_(d_after.T, active, alpha=1 / (1 - self.rate))
        d_hidden = torch.mm(d_after, self.out, out=self.take("gradient", -1, hidden))
        if self.rate:
            d_hidden.view(-1).index_fill_(0, self.dropped[number], 0)
        torch.ops.aten.gelu_backward.grad_input(d_hidden, hidden, grad_input=d_hidden)
        return d_hidden


class Passes:
    """Forward and backward through the steps of one batch."""

    def __init__(
        self, graph: Graph, w: StepWeights, constants: tuple[Tensor, Tensor], n_heads: int, rate: float
    ) -> None:
        self.graph, self.w, self.constants, self.n_heads = graph, w, constants, n_heads
        self.n_states, self.n_single, self.n_pairs = len(graph.mean[0]) - 1, len(graph.single), len(constants[0])
        self.memory = _unused.pop() if _unused else Memory()
        self.memory.views.clear()
        self.pair_update = Update("pair", w[-8:-4], rate, self.memory)
        self.state_update = Update("state", w[-4:], rate, self.memory)
        self.rng = seeded_generator()

    def take(self, name: str, number: int, rows: int, like: Tensor | None = None) -> Tensor:
        """A buffer of step `number`, of the network's width unless said otherwise; −1: for no longer than a step."""
        return self.memory.take(name, number, rows, self.w.message if like is None else like)

    def states(self, number: int) -> Tensor:
        """h_s before step `number`."""
        return self.take("states", number, self.n_states)

    def pairs(self, number: int) -> Tensor:
        """h_sa before step `number`."""
        return self.take("pairs", number, self.n_pairs)

    def hidden(self, number: int) -> tuple[Tensor, Tensor]:
        """The hidden layers of φ_s and φ_sa."""
        return self.take("state hidden", number, self.n_states), self.take("pair hidden", number, self.n_pairs)

    def attention(self, number: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries, keys beside values, weights, and what was attended to."""
        n_attending = self.n_pairs - self.n_single
        return (
            self.take("query", number, n_attending),
            self.take("source", number, self.n_states, self.w.source.T),
            self.take("weight", number, len(self.graph.edge_state), self.w.message[:, : self.n_heads]),
            self.take("attended", number, n_attending),
        )

    def singles(self, number: int) -> tuple[Tensor, Tensor]:
        """States that are the only successor of some pair, and their messages to these pairs."""
        n = self.graph.single_states.shape[0]
        return self.take("chosen", number, n), self.take("single", -1, n)

    def forward(self, number: int) -> None:
        """From h⁽ℓ⁾ to h⁽ℓ⁺¹⁾."""
        graph, w, states, pairs = self.graph, self.w, self.states(number), self.pairs(number)
        query, source, weight, attended = self.attention(number)
        torch.addmm(w.source_bias, states, w.source.T, out=source)
        query.copy_(self.constants[1]).addmm_(pairs[self.n_single :], w.query.T)
        queries, sources, weights, messages = _arrays(query, source, weight, attended)
        kernels.attend(queries, sources, graph.edge_start, graph.edge_state, graph.edge_bias, weights, messages)

        chosen, single = self.singles(number)
        torch.index_select(states, 0, graph.single_states, out=chosen)
        torch.addmm(w.single_bias, chosen, w.single.T, out=single)
        state_hidden, pair_hidden = self.hidden(number)
        kernels.add_rows(single.numpy(), graph.single, *_arrays(self.constants[0], pair_hidden))
        pair_hidden.addmm_(pairs, w.pair_hidden.T)
        pair_hidden[self.n_single :].addmm_(attended, w.message.T)
        self.pair_update.forward(number, pair_hidden, pairs, self.pairs(number + 1), self.rng)

        mean = self.take("mean", number, self.n_states)
        kernels.combine(self.pairs(number + 1).numpy(), *graph.mean, mean.numpy())
        torch.addmm(w.state_hidden_bias, states, w.state_hidden.T, out=state_hidden).addmm_(mean, w.state_mean.T)
        self.state_update.forward(number, state_hidden, states, self.states(number + 1), self.rng)

    def backward(
        self, number: int, d_states: Tensor, d_pairs: Tensor, d: StepWeights, d_constants: list[Tensor]
    ) -> None:
        """From the gradient by h⁽ℓ⁺¹⁾ to that by h⁽ℓ⁾, in its place; those by weights and constants are added up."""
        graph, w, states, pairs = self.graph, self.w, self.states(number), self.pairs(number)
        state_hidden, pair_hidden = self.hidden(number)
        d_hidden = self.state_update.backward(number, state_hidden, d_states)
        d.state_mean.addmm_(d_hidden.T, self.take("mean", number, self.n_states))
        d.state_hidden.addmm_(d_hidden.T, states)
        d.state_hidden_bias.add_(d_hidden.sum(0))
        d_states.addmm_(d_hidden, w.state_hidden)
        d_mean = torch.mm(d_hidden, w.state_mean, out=self.take("mean", -1, self.n_states))
        kernels.combine_backward(d_mean.numpy(), *graph.mean, d_pairs.numpy())

        d_hidden = self.pair_update.backward(number, pair_hidden, d_pairs)
        d.pair_hidden.addmm_(d_hidden.T, pairs)
        d_pairs.addmm_(d_hidden, w.pair_hidden)
        chosen, d_single = self.singles(number)
        kernels.add_rows_backward(d_hidden.numpy(), graph.single, *_arrays(d_single.zero_(), d_constants[0]))
        d.single.addmm_(d_single.T, chosen)
        d.single_bias.add_(d_single.sum(0))
        d_states.index_add_(0, graph.single_states, d_single @ w.single)

        query, source, weight, attended = self.attention(number)
        d_query, d_source, _, d_attended = self.attention(-1)
        d_attending = d_hidden[self.n_single :]
        d.message.addmm_(d_attending.T, attended)
        torch.mm(d_attending, w.message, out=d_attended)
        queries, sources, weights, messages = _arrays(query, source, weight, attended)
        kernels.attend_backward(
            d_attended.numpy(), queries, sources, graph.edge_start, graph.edge_state, weights, messages,
            d_query.numpy(), d_source.zero_().numpy(),
        )  # fmt: skip
        d_constants[1].add_(d_query)
        d.query.addmm_(d_query.T, pairs[self.n_single :])
        d_pairs[self.n_single :].addmm_(d_query, w.query)
        d.source.addmm_(d_source.T, states)
        d.source_bias.add_(d_source.sum(0))
        d_states.addmm_(d_source, w.source)


class Propagation(torch.autograd.Function):
    """h_s and h_sa after K steps, from those before, the constant parts of hidden layer and query, and the weights."""

    @staticmethod
    def forward(
        ctx: Any, graph: Graph, depth: int, n_heads: int, rate: float, states: Tensor, pairs: Tensor, *given: Tensor
    ) -> tuple[Tensor, Tensor]:
        """K steps, keeping what the gradient needs."""
        hidden, query, *weights = (tensor.detach().contiguous() for tensor in given)
        ctx.passes = passes = Passes(graph, StepWeights(*weights), (hidden, query), n_heads, rate)
        ctx.depth = depth
        passes.states(0).copy_(states)
        passes.pairs(0).copy_(pairs)
        for number in range(depth):
            passes.forward(number)
        return passes.states(depth).clone(), passes.pairs(depth).clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *after: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients by all tensors that were given."""
        passes: Passes = ctx.passes
        del ctx.passes
        d_states, d_pairs = (gradient.clone() for gradient in after)
        updates = passes.pair_update.gradients + passes.state_update.gradients
        d = StepWeights(*(torch.zeros_like(weight) for weight in passes.w[: -len(updates)]), *updates)
        d_constants = [torch.zeros_like(constant) for constant in passes.constants]
        for number in reversed(range(ctx.depth)):
            passes.backward(number, d_states, d_pairs, d, d_constants)
        _unused.append(passes.memory)
        return None, None, None, None, d_states, d_pairs, *d_constants, *d


def _arrays(*tensors: Tensor) -> Any:
    return [tensor.numpy() for tensor in tensors]
