"""The K tied propagation steps of A.4 with a written-out gradient, for training on a CPU.

It computes what `step.plain_step` and autograd compute, and wastes less beside the matrix products: nothing
is allocated in the loop, gradients of the tied weights are summed up by the products themselves (`products`), and what
lies between two products is one pass over memory (`kernels`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from mdpfn.arrays import offsets_of
from mdpfn.network import kernels
from mdpfn.network.config import Rounding
from mdpfn.network.dropout import dropped_places, seeded_generator
from mdpfn.network.packing import Tokens
from mdpfn.network.products import Memory, Products
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


_unused: list[Memory] = []  # a pass backward leaves its memory to the next pass forward


class Update:
    """LayerNorm(h + W dropout(GELU(hidden)) + b), the second half of the update of pairs and of states."""

    def __init__(self, name: str, weights: Sequence[Tensor], rate: float, products: Products) -> None:
        self.name, self.products, self.rate = name, products, rate
        out, self.bias, self.gain, self.shift = weights
        self.out = products.matrix(out / (1 - rate))  # what is not dropped counts for what is
        self.gradients = [torch.zeros_like(weight) for weight in weights]
        self.dropped: dict[int, Tensor] = {}

    def take(self, what: str, number: int, like: Tensor) -> Tensor:
        """A buffer like another tensor."""
        return self.products.memory.take(f"{self.name} {what}", number, like.shape[0], like)

    def forward(self, number: int, hidden: Tensor, before: Tensor, after: Tensor, rng: np.random.Generator) -> None:
        """Into `after`."""
        active = torch.ops.aten.gelu.out(hidden, out=self.take("active", number, hidden))
        if self.rate:
            self.dropped[number] = dropped_places(rng, active.numel(), self.rate)
            active.view(-1).index_fill_(0, self.dropped[number], 0)
        active = self.products.factor(f"{self.name} active", number, active)
        normal = self.products.put(self.take("normal", number, hidden), active, self.out.T)
        deviation = self.take("deviation", number, hidden[:, 0])
        kernels.add_and_normalize(*_arrays(normal, self.bias, before, self.gain, self.shift, deviation, after))

    def backward(self, number: int, hidden: Tensor, d_after: Tensor) -> Tensor:
        """The gradient by `hidden`; that by `before` takes the place of `d_after`."""
        d_out, d_bias, d_gain, d_shift = self.gradients
        active, normal = self.take("active", number, hidden), self.take("normal", number, hidden)
        deviation = self.take("deviation", number, hidden[:, 0])
        kernels.normalize_backward(*_arrays(d_after, normal, self.gain, deviation, d_gain, d_shift, d_bias))
        d_sum = self.products.factor(f"{self.name} sum", -1, d_after)
        active = self.products.factor_again(f"{self.name} active", number, active)
        self.products.add(d_out, d_sum.T, active, 1 / (1 - self.rate))
        d_hidden = self.products.put(self.take("gradient", -1, hidden), d_sum, self.out)
        if self.rate:
            d_hidden.view(-1).index_fill_(0, self.dropped[number], 0)
        torch.ops.aten.gelu_backward.grad_input(d_hidden, hidden, grad_input=d_hidden)
        return d_hidden


class Passes:
    """Forward and backward through the steps of one batch."""

    def __init__(
        self,
        graph: Graph,
        w: StepWeights,
        constants: tuple[Tensor, Tensor],
        n_heads: int,
        rate: float,
        rounding: Rounding,
    ) -> None:
        self.graph, self.w, self.constants, self.n_heads = graph, w, constants, n_heads
        self.n_states, self.n_single, self.n_pairs = len(graph.mean[0]) - 1, len(graph.single), len(constants[0])
        self.memory = _unused.pop() if _unused else Memory()
        self.memory.views.clear()
        self.products = Products(rounding, self.memory)
        self.m = StepWeights(*map(self.products.matrix, w))
        self.pair_update = Update("pair", w[-8:-4], rate, self.products)
        self.state_update = Update("state", w[-4:], rate, self.products)
        self.rng = seeded_generator()

    def take(self, name: str, number: int, rows: int, like: Tensor | None = None) -> Tensor:
        """A buffer of step `number`, of the network's width unless said otherwise; −1: for no longer than a step."""
        return self.memory.take(name, number, rows, self.w.message if like is None else like)

    def factor(self, name: str, number: int, x: Tensor) -> Tensor:
        """`x` as a factor of products."""
        return self.products.factor(name, number, x)

    def factor_again(self, name: str, number: int, x: Tensor) -> Tensor:
        """What `factor` gave for it on the way forward."""
        return self.products.factor_again(name, number, x)

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
        graph, w, m, put, add = self.graph, self.w, self.m, self.products.put, self.products.add
        states, pairs = self.states(number), self.pairs(number)
        of_states, of_pairs = self.factor("states", number, states), self.factor("pairs", number, pairs)
        query, source, weight, attended = self.attention(number)
        put(source, of_states, m.source.T, w.source_bias)
        put(query, of_pairs[self.n_single :], m.query.T, self.constants[1])
        queries, sources, weights, messages = _arrays(query, source, weight, attended)
        kernels.attend(queries, sources, graph.edge_start, graph.edge_state, graph.edge_bias, weights, messages)

        chosen, single = self.singles(number)
        torch.index_select(states, 0, graph.single_states, out=chosen)
        put(single, self.factor("chosen", number, chosen), m.single.T, w.single_bias)
        state_hidden, pair_hidden = self.hidden(number)
        kernels.add_rows(single.numpy(), graph.single, *_arrays(self.constants[0], pair_hidden))
        add(pair_hidden, of_pairs, m.pair_hidden.T)
        add(pair_hidden[self.n_single :], self.factor("attended", number, attended), m.message.T)
        self.pair_update.forward(number, pair_hidden, pairs, self.pairs(number + 1), self.rng)

        mean = self.take("mean", number, self.n_states)
        kernels.combine(self.pairs(number + 1).numpy(), *graph.mean, mean.numpy())
        put(state_hidden, of_states, m.state_hidden.T, w.state_hidden_bias)
        add(state_hidden, self.factor("mean", number, mean), m.state_mean.T)
        self.state_update.forward(number, state_hidden, states, self.states(number + 1), self.rng)

    def backward(
        self, number: int, d_states: Tensor, d_pairs: Tensor, d: StepWeights, d_constants: list[Tensor]
    ) -> None:
        """From the gradient by h⁽ℓ⁺¹⁾ to that by h⁽ℓ⁾, in its place; those by weights and constants are added up."""
        graph, m, put, add = self.graph, self.m, self.products.put, self.products.add
        states = self.factor_again("states", number, self.states(number))
        pairs = self.factor_again("pairs", number, self.pairs(number))
        state_hidden, pair_hidden = self.hidden(number)
        d_hidden = self.state_update.backward(number, state_hidden, d_states)
        d.state_hidden_bias.add_(d_hidden.sum(0))
        d_hidden = self.factor("state hidden", -1, d_hidden)
        mean, d_mean = (self.take("mean", n, self.n_states) for n in (number, -1))
        add(d.state_mean, d_hidden.T, self.factor_again("mean", number, mean))
        add(d.state_hidden, d_hidden.T, states)
        add(d_states, d_hidden, m.state_hidden)
        put(d_mean, d_hidden, m.state_mean)
        kernels.combine_backward(d_mean.numpy(), *graph.mean, d_pairs.numpy())

        d_hidden = self.pair_update.backward(number, pair_hidden, d_pairs)
        chosen, d_single = self.singles(number)
        kernels.add_rows_backward(d_hidden.numpy(), graph.single, *_arrays(d_single.zero_(), d_constants[0]))
        d_hidden = self.factor("pair hidden", -1, d_hidden)
        add(d.pair_hidden, d_hidden.T, pairs)
        add(d_pairs, d_hidden, m.pair_hidden)
        d.single_bias.add_(d_single.sum(0))
        d_single = self.factor("single", -1, d_single)
        add(d.single, d_single.T, self.factor_again("chosen", number, chosen))
        d_states.index_add_(0, graph.single_states, put(self.take("chosen", -1, len(chosen)), d_single, m.single))

        query, source, weight, attended = self.attention(number)
        d_query, d_source, _, d_attended = self.attention(-1)
        add(d.message, d_hidden[self.n_single :].T, self.factor_again("attended", number, attended))
        put(d_attended, d_hidden[self.n_single :], m.message)
        queries, sources, weights, messages = _arrays(query, source, weight, attended)
        kernels.attend_backward(
            d_attended.numpy(), queries, sources, graph.edge_start, graph.edge_state, weights, messages,
            d_query.numpy(), d_source.zero_().numpy(),
        )  # fmt: skip
        d_constants[1].add_(d_query)
        d.source_bias.add_(d_source.sum(0))
        d_query, d_source = self.factor("query", -1, d_query), self.factor("source", -1, d_source)
        add(d.query, d_query.T, pairs[self.n_single :])
        add(d_pairs[self.n_single :], d_query, m.query)
        add(d.source, d_source.T, states)
        add(d_states, d_source, m.source)


class Propagation(torch.autograd.Function):
    """h_s and h_sa after K steps, from those before, the constant parts of hidden layer and query, and the weights."""

    @staticmethod
    def forward(
        ctx: Any,
        graph: Graph,
        depth: int,
        n_heads: int,
        rate: float,
        rounding: Rounding,
        states: Tensor,
        pairs: Tensor,
        *given: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """K steps, keeping what the gradient needs."""
        hidden, query, *weights = (tensor.detach().contiguous() for tensor in given)
        ctx.passes = passes = Passes(graph, StepWeights(*weights), (hidden, query), n_heads, rate, rounding)
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
        return None, None, None, None, None, d_states, d_pairs, *d_constants, *d


def _arrays(*tensors: Tensor) -> Any:
    return [tensor.numpy() for tensor in tensors]
