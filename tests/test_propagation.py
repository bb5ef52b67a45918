"""The written-out gradient of the propagation loop is the gradient, with dropout and with memory that is used again."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mdpfn.evidence import PairTable, Statistics
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.network.config import Rounding
from mdpfn.network.dropout import dropout, dropped_places
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.packing import Tokens, pack
from mdpfn.network.propagation import Graph, Propagation
from mdpfn.network.step import plain_step
from mdpfn.network.tensors import tensors_of
from tests.strategies import seeds, statistics
from tests.test_network import make_network

N_HEADS = 4


def tokens_of(parts: list[Statistics]) -> Tokens:
    table = PairTable.concatenate([part.table() for part in parts])
    return tensors_of(pack(EmpiricalModel.of(table)), make_network())


def before(network: PolicyNetwork, tokens: Tokens) -> tuple[torch.Tensor, ...]:
    """States, pairs, constants and weights, as leaves whose gradients are compared, and the edges' bias."""
    code = torch.randn(len(tokens.pair_features), network.config.width, dtype=torch.float64)
    states = torch.randn(len(tokens.state_mdp), network.config.width, dtype=torch.float64)
    weights, constants = network._step_weights(code, tokens, 1.0)
    leaves = states, code, constants.hidden, constants.query, *weights
    return tuple(leaf.detach().clone().requires_grad_() for leaf in leaves)


def fast(
    tokens: Tokens, leaves: tuple[torch.Tensor, ...], depth: int, rate: float = 0.0, rounding: Rounding = "none"
) -> torch.Tensor:
    edge_bias = tokens.edge_log_prob + tokens.edge_log_multiplicity
    return torch.cat(Propagation.apply(Graph(tokens, edge_bias), depth, N_HEADS, rate, rounding, *leaves))


def plain(network: PolicyNetwork, tokens: Tokens, leaves: tuple[torch.Tensor, ...], depth: int) -> torch.Tensor:
    states, pairs, hidden, query, *weights = leaves
    kinds, constants = network._step_weights(pairs.detach(), tokens, 1.0)
    constants = constants._replace(hidden=hidden, query=query)
    for _ in range(depth):
        states, pairs = plain_step(states, pairs, tokens, type(kinds)(*weights), constants, N_HEADS, 0.0)
    return torch.cat([states, pairs])


@settings(max_examples=30, deadline=None)
@given(st.lists(statistics(), min_size=1, max_size=4), st.integers(0, 4), seeds)
def test_equals_autograd_of_plain_steps(parts: list[Statistics], depth: int, seed: int) -> None:
    torch.manual_seed(seed)
    network, tokens = make_network(), tokens_of(parts)
    leaves = before(network, tokens)
    pull = torch.randn(len(leaves[0]) + len(leaves[1]), network.config.width, dtype=torch.float64)
    results = [fast(tokens, leaves, depth), plain(network, tokens, leaves, depth)]
    torch.testing.assert_close(*results, rtol=0, atol=1e-9)
    ours, theirs = (torch.autograd.grad(r, leaves, pull, allow_unused=True, materialize_grads=True) for r in results)
    scale = max(float(gradient.abs().max()) for gradient in theirs if gradient.numel())
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine / scale, other / scale, rtol=0, atol=1e-9)


HISTORY = Statistics.from_transitions(
    [0, 0, 1, 1, 1, 2], [0, 1, 0, 0, 0, 1], [1, -1, 0.5, 0, 0, 2], [1, 2, 0, 2, 2, 2], n_states=4
)


def test_gradient_with_dropout() -> None:
    """Against finite differences by every leaf: the same numbers are dropped whenever the seed is the same."""
    tokens = tokens_of([HISTORY])
    leaves = before(make_network(), tokens)

    def seeded(*leaves: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        return fast(tokens, leaves, 2, rate=0.3)

    undisturbed, again = fast(tokens, leaves, 2), seeded(*leaves)
    assert (undisturbed - again).abs().max() > 1e-3  # something was dropped
    assert torch.equal(again, seeded(*leaves))
    pull = torch.randn_like(again)
    gradients = torch.autograd.grad(again, leaves, pull)
    for i, (leaf, gradient) in enumerate(zip(leaves, gradients, strict=True)):
        way = 1e-6 * torch.randn_like(leaf)
        there, back = (seeded(*leaves[:i], leaf + sign * way, *leaves[i + 1 :]) for sign in (1, -1))
        expected = float((pull * (there - back).detach()).sum()) / 2
        assert abs(float((gradient * way).sum()) - expected) < 1e-6 * abs(expected) + 1e-9, i


def test_rounded_factors_change_little() -> None:
    """bfloat16 has 8 bits: one part in 256 of every factor, which sums over many of them even out."""
    torch.manual_seed(0)
    tokens = tokens_of([HISTORY] * 3)
    leaves = before(make_network(), tokens)
    exact, rounded = fast(tokens, leaves, 3), fast(tokens, leaves, 3, rounding="bfloat16")
    assert 0 < (rounded - exact).abs().max() < 0.05  # of numbers that LayerNorm brings to the size of 1
    pull = torch.randn_like(exact)
    for mine, other in zip(
        torch.autograd.grad(rounded, leaves, pull), torch.autograd.grad(exact, leaves, pull), strict=True
    ):
        assert (mine - other).norm() < 0.05 * other.norm() + 1e-9


def test_dropout_scales_what_it_keeps_and_its_gradient() -> None:
    x = torch.randn(40, 50, requires_grad=True)
    torch.manual_seed(1)
    out = dropout(x, 0.2)
    kept = out != 0
    assert 0.7 < float(kept.double().mean()) < 0.9
    torch.testing.assert_close(out[kept], (x / 0.8)[kept])
    out.sum().backward()
    torch.testing.assert_close(x.grad, kept / 0.8)


def test_passes_do_not_share_memory() -> None:
    """Two passes forward before the first one backward; then a smaller one in memory that a larger one left."""
    network = make_network()
    small, large = tokens_of([HISTORY]), tokens_of([HISTORY] * 5)

    def gradients(order: list[Tokens]) -> list[torch.Tensor]:
        answers = [network(tokens).policy_logits.square().sum() for tokens in order]
        return [torch.autograd.grad(a, network.parameters(), allow_unused=True)[2] for a in answers]

    alone = gradients([small]) + gradients([large])
    together = gradients([small, large])
    for mine, other in zip(alone + gradients([small]), [*together, together[0]], strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=0)


def test_a_second_pass_backward_is_refused() -> None:
    answer = make_network()(tokens_of([HISTORY])).policy_logits.sum()
    answer.backward(retain_graph=True)
    with pytest.raises(AttributeError):
        answer.backward()


def test_training_and_use_compute_the_same() -> None:
    network, tokens = make_network(), tokens_of([HISTORY])
    with torch.no_grad():
        plainly = copy.deepcopy(network)(tokens).policy_logits
    torch.testing.assert_close(network(tokens).policy_logits, plainly, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.99])
def test_dropped_places_are_independent_coins(rate: float) -> None:
    rng, n, times = np.random.default_rng(0), 60, 20_000
    dropped = np.zeros((times, n))
    for row in dropped:
        row[dropped_places(rng, n, rate).numpy()] = 1
    error = (rate * (1 - rate) / times) ** 0.5
    assert np.abs(dropped.mean(axis=0) - rate).max() < 5 * error  # everywhere alike
    pairs = (dropped[:, :-1] * dropped[:, 1:]).mean(axis=0)
    assert np.abs(pairs - rate**2).max() < 5 * (rate**2 * (1 - rate**2) / times) ** 0.5  # neighbours too
    assert len(dropped_places(rng, 0, rate)) == 0
