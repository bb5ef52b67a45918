"""The policy network at use, in NumPy: `network.py` function by function, in the same order.

Reading, writing and running a model needs no torch. `tests/test_numpy_network.py` holds the two equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from mdpfn.network.config import NetworkConfig
from mdpfn.network.features import CERTAINTY_EQUIVALENT_VALUE, DOUBT
from mdpfn.network.numpy_attention import Segments, successor_attention
from mdpfn.network.packing import TRIED, Answer, Tokens

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Step: TypeAlias = Callable[[Array, Array], tuple[Array, Array]]

NORM_EPSILON = 1e-5  # of torch's LayerNorm
GELU_STEPS, GELU_RANGE = 1024, 8  # grid points per unit, and how far the grid goes


class Linear(NamedTuple):
    """x Wᵀ + b."""

    weight: Array
    bias: Array

    def __call__(self, x: Array) -> Array:
        """(n, n_out) of (n, n_in)."""
        return linear(x, self.weight, self.bias)


class LayerNorm(NamedTuple):
    """(x − mean) / deviation of every row, scaled and shifted."""

    weight: Array
    bias: Array
    share: Array  # (d,) 1 / d each: a product with it is a mean

    def __call__(self, x: Array) -> Array:
        """(n, d) of (n, d)."""
        normed: Array = x - (x @ self.share)[:, None]
        variance = np.square(normed) @ self.share
        variance += NORM_EPSILON
        normed /= np.sqrt(variance)[:, None]
        normed *= self.weight
        normed += self.bias
        return normed


class MLP(NamedTuple):
    """Linear, GELU, linear. `finish` starts behind the first linear layer."""

    hidden: Linear
    out: Linear

    def __call__(self, x: Array) -> Array:
        """(n, n_out) of (n, n_in)."""
        return self.finish(self.hidden(x))

    def finish(self, hidden: Array) -> Array:
        """(n, n_out) of the (n, width) output of the first linear layer."""
        return self.out(gelu(hidden))


class _Folded(NamedTuple):
    """Weights as steps and readout use them: W [a; b] = W_a a + W_b b, piece by piece."""

    query_h: Array
    query_e: Linear
    update_h: Array
    update_e: Linear
    message: Array
    state: Linear
    state_mean: Array
    head_s: Linear
    head_sa: Array
    head_e: Array
    head_row: Array


class NumpyNetwork:
    """Statistics in, policy logits out; what `PolicyNetwork` computes with the same parameters in evaluation mode."""

    def __init__(self, config: NetworkConfig, weights: Mapping[str, Array]) -> None:
        shapes, found = config.shapes, {name: array.shape for name, array in weights.items()}
        if found != shapes:
            wrong = sorted(name for name in shapes.keys() | found.keys() if shapes.get(name) != found.get(name))
            raise ValueError(f"{wrong[0]!r} has the shape {found.get(wrong[0])}, not {shapes.get(wrong[0])}")
        self.dtype = np.result_type(np.float32, *(array.dtype for array in weights.values()))
        if self.dtype.kind != "f":
            raise ValueError(f"they are of the type {self.dtype}")
        self.config = config
        self.weights = {name: weights[name].astype(self.dtype, copy=False) for name in shapes}
        self.encoder = self._mlp("encoder")  # φ_enc
        self.state_init = self._mlp("state_init")  # φ_init
        self.query = self._linear("query")  # W_q [h_sa; e_sa]
        self.key = self._linear("key")  # W_k
        self.value = self._linear("value")  # W_v
        self.output = self._linear("output")  # W_o
        self.pair_update = self._mlp("pair_update")  # φ_sa [h_sa; m_sa; e_sa]
        self.state_update = self._mlp("state_update")  # φ_s [h_s; mean_a h_sa]
        share = np.full(config.width, 1 / config.width, self.dtype)
        self.pair_norm = LayerNorm(*self._linear("pair_norm"), share)
        self.state_norm = LayerNorm(*self._linear("state_norm"), share)
        self.head = self._mlp("head")  # φ_head [h_s; h_sa; e_sa; plans]
        self.trust = self._mlp("plan_residual.trust") if config.inputs == "planned" else None
        self.shift = self._mlp("action_pooling.shift") if config.action_pooling else None

    def _linear(self, name: str) -> Linear:
        return Linear(self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _mlp(self, name: str) -> MLP:
        return MLP(self._linear(f"{name}.hidden"), self._linear(f"{name}.out"))

    @property
    def n_parameters(self) -> int:
        """How many numbers it has learned."""
        return sum(array.size for array in self.weights.values())

    def plan_residual(self, plans: Array, trust: Array) -> Array:
        """(…, outputs) policy and quantiles of plans (…, features), given the trust in them (…, features)."""
        out: Array = plans @ self.weights["plan_residual.always.weight"].T
        out[:, 0] += np.vecdot(trust, plans)
        return out

    def action_pooling(self, shift: MLP, pairs: Array, tokens: Tokens[Array]) -> Array:
        """(all pairs,) what is added to the logit of a pair; 0 where it was tried."""
        n_visited = len(tokens.pair_action)
        visited = np.concatenate([pairs[:n_visited], tokens.row_features[:n_visited]], axis=1)
        actions = Segments(tokens.pair_action, len(tokens.action_features), self.dtype)
        mean = actions.sums(visited * tokens.action_weight[:, None])
        by_kind = np.zeros((len(mean), 3), self.dtype)  # nothing for TRIED, then UNTRIED, then UNKNOWN
        by_kind[:, 1:] = shift(np.concatenate([mean, tokens.action_features], axis=1))
        added: Array = by_kind[tokens.logit_action, tokens.logit_kind]
        return added

    def __call__(
        self, tokens: Tokens[Array], depth: int | None = None, transition_bias: float | None = None
    ) -> Answer[Array]:
        """The policy of every MDP, and the quantiles of its values if the network has any."""
        depth, beta = self.config.unrolled(depth, transition_bias)
        tokens = _cast(tokens, self.dtype)
        states_of = Segments(tokens.pair_state, len(tokens.state_mdp), self.dtype)
        code = self.encoder(tokens.pair_features)  # e_sa
        mean = mean_over_actions(code, tokens, states_of)
        states = self.state_init(np.concatenate([mean, tokens.state_features], axis=1))  # h_s⁽⁰⁾
        pairs = code  # h_sa⁽⁰⁾ = e_sa
        step = self._propagation(code, tokens, beta, states_of)
        for number in range(1, depth + 1):
            after = step(states, pairs)
            share = self.dtype.type(self.config.share_of_step(number))
            states, pairs = after if share == 1 else (_lerp(states, after[0], share), _lerp(pairs, after[1], share))
        return self._readout(states, pairs, code, tokens)

    @cached_property
    def _folded(self) -> _Folded:
        """What `_propagation` and `_readout` make of the weights alone."""
        d = self.config.width
        scale = self.dtype.type((d // self.config.n_heads) ** -0.5)
        query_weight, update = self.query.weight * scale, self.pair_update.hidden.weight
        update_m, state_h = update[:, d : 2 * d], self.state_update.hidden.weight[:, :d]
        head = self.head.hidden.weight
        message = update_m @ self.output.weight  # W_m W_o: from attended values straight into φ_sa
        # A single-successor pair attends to one state only, so W_m W_o v is computed for every state and looked up.
        weights = self.key.weight, self.value.weight, message @ self.value.weight, state_h
        biases = self.key.bias, self.value.bias, message @ self.value.bias, self.state_update.hidden.bias
        return _Folded(
            query_h=query_weight[:, :d],
            query_e=Linear(query_weight[:, d:], self.query.bias * scale),
            update_h=update[:, :d],
            update_e=Linear(update[:, 2 * d :], self.pair_update.hidden.bias + update_m @ self.output.bias),
            message=message,
            state=Linear(np.concatenate(weights), np.concatenate(biases)),
            state_mean=self.state_update.hidden.weight[:, d:],
            head_s=Linear(head[:, :d], self.head.hidden.bias),
            head_sa=head[:, d : 2 * d],
            head_e=head[:, 2 * d : 3 * d],
            head_row=head[:, 3 * d :],
        )

    def _propagation(self, code: Array, tokens: Tokens[Array], beta: float, states_of: Segments) -> Step:
        """One step h⁽ℓ⁾ → h⁽ℓ⁺¹⁾ as a function; all that does not change over the K steps is done here."""
        d, n_single, folded = self.config.width, len(tokens.single_successor), self._folded
        pair_constant, query_constant = folded.update_e(code), folded.query_e(code[n_single:])
        edge_bias = self.dtype.type(beta) * tokens.edge_log_prob + tokens.edge_log_multiplicity
        edges = Segments(tokens.edge_pair, len(code) - n_single, self.dtype)

        def step(states: Array, pairs: Array) -> tuple[Array, Array]:
            of_states = folded.state(states)
            key, value, single, state_hidden = (of_states[:, i * d : (i + 1) * d] for i in range(4))
            query = pairs[n_single:] @ folded.query_h.T
            query += query_constant
            attended = successor_attention(query, key, value, edges, tokens.edge_state, edge_bias, self.config.n_heads)
            pair_hidden = pairs @ folded.update_h.T
            pair_hidden += pair_constant
            pair_hidden[:n_single] += single.take(tokens.single_successor, axis=0)
            pair_hidden[n_single:] += attended @ folded.message.T
            pairs = self.pair_norm(self.pair_update.finish(pair_hidden) + pairs)
            state_hidden = state_hidden + mean_over_actions(pairs, tokens, states_of) @ folded.state_mean.T
            states = self.state_norm(self.state_update.finish(state_hidden) + states)
            return states, pairs

        return step

    def _readout(self, states: Array, pairs: Array, code: Array, tokens: Tokens[Array]) -> Answer[Array]:
        """φ_head([h_s; h_sa; e_sa; plans]) of every pair, computed once per distinct row and looked up."""
        folded = self._folded
        of_pair = pairs @ folded.head_sa.T
        of_pair += code @ folded.head_e.T
        n_unvisited, n_states = len(tokens.n_states), len(states)
        row_pair = np.concatenate([np.arange(len(pairs) - n_unvisited), tokens.state_mdp + len(pairs) - n_unvisited])
        row_state = np.concatenate([tokens.pair_state, np.arange(n_states)])
        rows = tokens.row_features @ folded.head_row.T
        rows += of_pair.take(row_pair, axis=0)
        rows += folded.head_s(states).take(row_state, axis=0)
        out = self.head.finish(rows)
        if self.trust is not None:
            out += self.plan_residual(tokens.row_features, self.trust(states).take(row_state, axis=0))
        logits, values = out[:, 0].take(tokens.logit_row), out[:, 1:]
        if self.config.quantiles:
            values = self.quantiles(values, tokens.row_features)
        if self.shift is not None and (tokens.logit_kind != TRIED).any():
            logits += self.action_pooling(self.shift, pairs, tokens)
        return Answer(logits, values.take(tokens.logit_row, axis=0))

    def quantiles(self, values: Array, row_features: Array) -> Array:
        """(rows, levels) in rising order: away from the certainty-equivalent value, as far as it is in doubt.

        The median by its output, the others from there by positive steps. With much data nothing is left in doubt.
        """
        certain, doubt = row_features[:, CERTAINTY_EQUIVALENT_VALUE, None], row_features[:, DOUBT, None]
        middle = self.config.quantiles.index(0.5)
        median, step = values[:, middle : middle + 1], np.logaddexp(values, 0)  # softplus
        below = median - step[:, :middle][:, ::-1].cumsum(axis=1)[:, ::-1]
        offset = np.concatenate([below, median, median + step[:, middle + 1 :].cumsum(axis=1)], axis=1)
        quantiles: Array = certain + doubt * offset
        return quantiles


def mean_over_actions(pairs: Array, tokens: Tokens[Array], states_of: Segments) -> Array:
    """(states, d) 1/|A| Σ_a h_sa of every state token."""
    n_unvisited = len(tokens.n_states)
    visited, unvisited = pairs[:-n_unvisited], pairs[-n_unvisited:]
    mean = states_of.sums(visited)
    mean *= tokens.visited_weight[:, None]
    mean += tokens.unvisited_weight[:, None] * unvisited.take(tokens.state_mdp, axis=0)
    return mean


def linear(x: Array, weight: Array, bias: Array) -> Array:
    """x Wᵀ + b."""
    found: Array = x @ weight.T
    found += bias
    return found


def gelu(x: Array) -> Array:
    """x Φ(x), to 1e-11 in float64: by the expansion of Φ around the nearest point of a grid.

    The distribution function of SciPy takes twice as long, and its import longer than a plan.
    """
    *higher, lowest = _normal_grid(x.dtype)
    distance = x * x.dtype.type(GELU_STEPS)
    nearest = np.rint(distance)
    distance -= nearest
    np.fmin(nearest, GELU_RANGE * GELU_STEPS, out=nearest)  # what is not a number stays so by its distance
    np.fmax(nearest, -GELU_RANGE * GELU_STEPS, out=nearest)
    place = nearest.astype(np.intp)
    phi: Array = lowest.take(place, mode="wrap")
    for term in reversed(higher):
        phi *= distance
        phi += term.take(place, mode="wrap")
    phi *= x
    return phi


@cache
def _normal_grid(dtype: np.dtype[Any]) -> list[Array]:
    """The terms of the expansion of Φ at the points of the grid, for distances in its steps; at its ends, 0 and 1.

    Points below 0 come last: their places count from the end.
    """
    x = np.arange(-GELU_RANGE * GELU_STEPS, GELU_RANGE * GELU_STEPS + 1) / GELU_STEPS
    phi = np.array([math.erfc(-point) / 2 for point in x / math.sqrt(2)])
    density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    terms = np.array([phi, density, -x * density / 2, (x**2 - 1) * density / 6])
    terms /= float(GELU_STEPS) ** np.arange(len(terms))[:, None]
    terms[:, 0], terms[:, -1] = 0.0, (1.0, 0.0, 0.0, 0.0)
    terms = np.roll(terms, -GELU_RANGE * GELU_STEPS, axis=1).astype(dtype)
    return list(terms)[: 2 if dtype == np.float32 else 4]  # the others are below what that can tell


def _lerp(start: Array, end: Array, share: Any) -> Array:
    found: Array = start + share * (end - start)
    return found


def _cast(tokens: Tokens[Array], dtype: np.dtype[Any]) -> Tokens[Array]:
    """The same with features of another float type."""
    arrays = vars(tokens).items()
    return Tokens(**{name: array.astype(dtype) if array.dtype.kind == "f" else array for name, array in arrays})
