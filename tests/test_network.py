"""The fast network equals the paper's equations, and has the symmetries they imply."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmarks.naive import naive_forward, pad_z
from hypothesis import given, settings
from hypothesis import strategies as st

from mdpfn.evidence import PairTable, Statistics
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.network.attention import successor_attention
from mdpfn.network.config import NetworkConfig
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.packing import pack
from mdpfn.network.tensors import tensors_of
from tests.interface import planner_outputs
from tests.strategies import seeds, statistics

TOLERANCE = 1e-9


def make_network(seed: int = 0) -> PolicyNetwork:
    """In float64, with weights large enough for attention to be far from uniform and logits far from 0."""
    torch.manual_seed(seed)
    config = NetworkConfig(width=16, n_heads=4, depth=4, dropout=0.0, most_visits=1e9)
    network = PolicyNetwork(config).double().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter) * (0.7 if parameter.ndim == 2 else 0.3))
    return network


NETWORK = make_network()


def oracle(z: PairTable, depth: int, beta: float = 1.0) -> list[np.ndarray]:
    dense = [torch.from_numpy(z.dense_z(i)) for i in range(len(z))]
    # padding beyond the largest MDP, so that every mask matters
    padded = pad_z(dense, z.n_actions.tolist(), int(z.n_states.max()) + 2, int(z.n_actions.max()) + 1)
    with torch.no_grad():
        logits = naive_forward(NETWORK, *padded, depth, beta).numpy()
    return [logits[i, : z.n_states[i], : z.n_actions[i]] for i in range(len(z))]


@settings(max_examples=250, deadline=None)
@given(st.lists(statistics(), min_size=1, max_size=4), st.integers(0, 6), st.sampled_from([0.5, 1.0, 2.0]))
def test_equals_the_naive_network(parts: list[Statistics], depth: int, beta: float) -> None:
    z = PairTable.concatenate([s.table() for s in parts])
    for fast, slow in zip(
        planner_outputs(NETWORK, z, depth=depth, transition_bias=beta), oracle(z, depth, beta), strict=True
    ):
        np.testing.assert_allclose(fast.policy_logits, slow, rtol=0, atol=TOLERANCE)


def test_more_visits_than_in_training_count_as_the_most_of_them() -> None:
    network = make_network()
    network.config = replace(network.config, most_visits=20.0)

    def logits(times: int) -> np.ndarray:
        states, actions, rewards, following = [0, 0, 1, 2], [0, 0, 1, 0], [1.0, 1.0, 2.0, 0.0], [1, 2, 0, 0]
        rows = (part * times for part in (states, actions, rewards, following))
        return planner_outputs(network, Statistics.from_transitions(*rows, n_states=3).table())[0].policy_logits

    np.testing.assert_array_equal(logits(20), logits(500))
    assert np.abs(logits(20) - logits(5)).max() > TOLERANCE


def test_the_comparison_can_fail() -> None:
    """Logits vary by far more than the tolerance: equality with the oracle is not vacuous."""
    history = Statistics.from_transitions(
        [0, 0, 1, 1, 1], [0, 1, 0, 0, 0], [1, -1, 0.5, 0, 0], [1, 2, 0, 2, 2], n_states=4
    )
    logits = planner_outputs(NETWORK, history.table())[0].policy_logits
    assert np.ptp(logits) > 0.1
    assert np.abs(logits - planner_outputs(NETWORK, history.table(), transition_bias=2.0)[0].policy_logits).max() > 1e-3
    assert np.abs(logits - planner_outputs(NETWORK, history.table(), depth=5)[0].policy_logits).max() > 1e-3


@pytest.mark.parametrize("n_states", [1, 2, 7])
def test_nothing_observed(n_states: int) -> None:
    """Empty statistics: every state and every action looks the same."""
    z = Statistics(n_states, 3).table()
    logits = planner_outputs(NETWORK, z)[0].policy_logits
    np.testing.assert_allclose(logits, oracle(z, 4)[0], atol=TOLERANCE)
    assert np.ptp(logits) == 0


def relabelled(original: Statistics, states: np.ndarray, actions: np.ndarray) -> Statistics:
    counts, sums = original.dense_counts()
    new_counts, new_sums = np.zeros_like(counts), np.zeros_like(sums)
    new_counts[np.ix_(states, actions, states)] = counts
    new_sums[np.ix_(states, actions)] = sums
    return Statistics.from_counts(new_counts, new_sums)


@settings(max_examples=60, deadline=None)
@given(statistics(), seeds)
def test_equivariant_to_names_of_states_and_actions(original: Statistics, seed: int) -> None:
    rng = np.random.default_rng(seed)
    original = relabelled(original, np.arange(original.n_states), np.arange(original.n_actions))  # same reward scale
    states, actions = rng.permutation(original.n_states), rng.permutation(original.n_actions)
    logits = planner_outputs(NETWORK, original.table())[0].policy_logits
    renamed = planner_outputs(NETWORK, relabelled(original, states, actions).table())[0].policy_logits
    np.testing.assert_allclose(renamed[np.ix_(states, actions)], logits, atol=TOLERANCE)


@settings(max_examples=60, deadline=None)
@given(st.lists(statistics(), min_size=2, max_size=5))
def test_independent_of_the_rest_of_the_batch(parts: list[Statistics]) -> None:
    together = planner_outputs(NETWORK, PairTable.concatenate([s.table() for s in parts]))
    for part, found in zip(parts, together, strict=True):
        alone = planner_outputs(NETWORK, part.table())[0]
        np.testing.assert_allclose(found.policy_logits, alone.policy_logits, atol=TOLERANCE)


@settings(max_examples=60, deadline=None)
@given(statistics(), st.sampled_from([1e-3, 0.1, 8.0, 1e5]))
def test_invariant_to_the_scale_of_rewards(original: Statistics, factor: float) -> None:
    counts, sums = original.dense_counts()
    logits = planner_outputs(NETWORK, Statistics.from_counts(counts, sums).table())[0].policy_logits
    scaled = planner_outputs(NETWORK, Statistics.from_counts(counts, sums * factor).table())[0].policy_logits
    np.testing.assert_allclose(scaled, logits, atol=TOLERANCE)


def test_gradients_equal_the_naive_ones() -> None:
    rng = np.random.default_rng(3)
    parts = []
    for n_states, n_actions in [(5, 2), (3, 4), (8, 3)]:
        n = 30
        s, a, t = rng.integers(n_states, size=n), rng.integers(n_actions, size=n), rng.integers(n_states, size=n)
        parts.append(Statistics.from_transitions(s, a, rng.normal(size=n), t, n_states=n_states, n_actions=n_actions))
    z = PairTable.concatenate([p.table() for p in parts])
    network = make_network()

    fast = network(tensors_of(pack(EmpiricalModel.of(z)), network)).policy_logits
    fast.square().sum().backward()
    fast_gradients = {n: p.grad.clone() for n, p in network.named_parameters()}
    network.zero_grad()
    padded = pad_z([torch.from_numpy(z.dense_z(i)) for i in range(3)], z.n_actions.tolist(), 9, 5)
    slow = naive_forward(network, *padded, depth=4)
    sum(slow[i, : z.n_states[i], : z.n_actions[i]].square().sum() for i in range(3)).backward()
    largest = max(p.grad.abs().max() for p in network.parameters())
    for name, parameter in network.named_parameters():
        assert (fast_gradients[name] - parameter.grad).abs().max() / largest < TOLERANCE, name


@pytest.mark.parametrize("n_states", [10, 100_000])
def test_tokens_grow_with_observed_transitions_only(n_states: int) -> None:
    history = Statistics.from_transitions(
        [0, 0, 0, 3], [0, 1, 1, 0], [0.0, 1.0, 1.0, 0.0], [1, 2, 3, 0], n_states=n_states
    )
    tokens = pack(EmpiricalModel.of(history.table()))
    assert len(tokens.pair_features) == 4  # three visited pairs, one for all the unvisited
    assert len(tokens.single_successor) == 2
    assert len(tokens.state_mdp) == 3  # two active states, one for all the others


def test_content_free_attention_is_the_bellman_expectation() -> None:
    """With constant content logits and β = 1 the message is E_{s' ~ P̂}[v_s'] (A.4)."""
    probabilities = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    value = torch.randn(3, 8, dtype=torch.float64)
    message = successor_attention(
        torch.zeros(1, 8, dtype=torch.float64),
        torch.randn(3, 8, dtype=torch.float64),
        value,
        torch.zeros(3, dtype=torch.long),
        torch.arange(3),
        probabilities.log(),
        n_heads=2,
    )
    torch.testing.assert_close(message[0], probabilities @ value)
