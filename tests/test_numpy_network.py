"""What is used is what was trained: the network in NumPy against the one in torch."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mdpfn.evidence import PairTable
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.network.config import NetworkConfig
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.numpy_network import NumpyNetwork, gelu
from mdpfn.network.packing import Answer, Tokens, pack
from mdpfn.network.tensors import tensors_of, to_numpy, to_torch
from mdpfn.planners.problem_info import ProblemInfo
from mdpfn.weights import load_model, shipped_models
from tests.planned import problems, random_network

USE_WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # as if it were not installed
import numpy as np
from mdpfn import Agent
for weights in ("mdpfn-2", "paper"):
    agent = Agent.from_pretrained(weights)
    agent.solve("FrozenLake-v1", episodes=3, seed=0, evaluate=1)
    agent.plan().q_quantiles, agent.result.value
    agent.save(sys.argv[1] + weights)
    action, _ = Agent.load(sys.argv[1] + weights).predict(0)
agent.fit([(0, 1, 1.0, 1), (1, 0, 0.0, 0)]).predict(0)
Agent.from_pretrained().solve("CartPole-v1", episodes=1, seed=0)
from mdpfn.baselines import BASELINES
from mdpfn.bench.environments import ENVIRONMENTS
from mdpfn.bench.protocols.leaderboard import LeaderboardProtocol, scores_after
from mdpfn.bench.protocols.methods import IN_CONTEXT, Method, stored_weights
for method in (Method(IN_CONTEXT, weights=stored_weights("mdpfn-2")), Method("psrl")):
    scores_after({1}, LeaderboardProtocol(1, 1), ENVIRONMENTS["river-swim-6"], method)
sys.modules["matplotlib"] = None
from pathlib import Path
from mdpfn import MdpfnError
from mdpfn.cli.main import figures, prior, train
from mdpfn.cli.measure import study
calls = (lambda: train(Path("run")), figures, prior, lambda: study("calibration", out=Path(sys.argv[1] + "results")))
for call in calls:
    try:
        call()
    except MdpfnError as error:
        print(error)
"""


def both(network: NumpyNetwork, tokens: Tokens[np.ndarray], depth: int | None) -> tuple[list[np.ndarray], ...]:
    trained = to_torch(network)
    with torch.inference_mode():
        answer = trained(tensors_of(tokens, trained), depth)
    return [part.numpy() for part in answer], list(network(tokens, depth))


def tokens_of(network: NumpyNetwork, parts: list[tuple[PairTable, ProblemInfo]]) -> Tokens[np.ndarray]:
    model = EmpiricalModel.of(PairTable.concatenate([z for z, _ in parts]))
    info = ProblemInfo.concatenate([info for _, info in parts])
    return pack(model, info if network.config.inputs == "planned" else None)


def in_float64(network: NumpyNetwork) -> NumpyNetwork:
    return NumpyNetwork(network.config, {name: array.astype(np.float64) for name, array in network.weights.items()})


@pytest.mark.parametrize("name", shipped_models())
@settings(max_examples=40, deadline=None)
@given(parts=st.lists(problems(), min_size=1, max_size=3), depth=st.sampled_from([None, 0, 3]))
def test_shipped_models_say_the_same_without_torch(name, parts, depth):
    """To 1e-6 in float64; in the precision of the weights, float32, both are off by no more than their rounding."""
    network = load_model(name).network
    tokens = tokens_of(network, parts)
    exact = both(in_float64(network), tokens, depth)
    for there, here in zip(*exact, strict=True):
        np.testing.assert_allclose(here, there, rtol=0, atol=1e-6)
    for there, here in zip(exact[0], network(tokens, depth), strict=True):
        assert here.dtype == np.float32
        np.testing.assert_allclose(here, there, rtol=0, atol=2e-5 * max(1.0, np.abs(there).max(initial=0)))


def test_gelu_is_that_of_torch():
    x = np.concatenate([np.linspace(-12, 12, 100_001), [-1e30, 1e30, 0.0, np.nan]])
    truth = torch.nn.functional.gelu(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(gelu(x), truth, rtol=0, atol=1e-11)
    np.testing.assert_allclose(gelu(x.astype(np.float32)), truth.astype(np.float32), rtol=3e-7, atol=3e-7)


@settings(max_examples=40, deadline=None)
@given(parts=st.lists(problems(), min_size=1, max_size=3), depth=st.sampled_from([None, 0, 1, 5]))
def test_any_weights_say_the_same_without_torch(parts, depth):
    """With large random ones every input matters to every output; beyond the trained depth steps shrink."""
    trained = random_network()
    network = NumpyNetwork(replace(trained.config, trained_depth=2), to_numpy(trained).weights)
    for there, here in zip(*both(network, tokens_of(network, parts), depth), strict=True):
        np.testing.assert_allclose(here, there, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "config",
    [
        NetworkConfig(width=8, n_heads=2),
        NetworkConfig(width=8, n_heads=2, inputs="planned"),
        NetworkConfig(width=4, n_heads=1, inputs="planned", quantiles=(0.1, 0.5), action_pooling=True),
    ],
)
def test_parameters_have_the_same_names_and_shapes(config):
    network = PolicyNetwork(config)
    assert config.shapes == {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    again = to_torch(to_numpy(network))
    assert all(torch.equal(again.state_dict()[name], tensor) for name, tensor in network.state_dict().items())


def test_weights_that_do_not_fit_are_refused():
    network = to_numpy(random_network())
    with pytest.raises(ValueError, match=r"'key\.bias' has the shape None"):
        NumpyNetwork(network.config, {n: a for n, a in network.weights.items() if n != "key.bias"})
    with pytest.raises(ValueError, match="complex"):
        NumpyNetwork(network.config, {n: a.astype(complex) for n, a in network.weights.items()})


def test_answers_are_named():
    assert Answer(np.zeros(1), np.zeros((1, 0)))._fields == ("policy_logits", "q_quantiles")


@pytest.mark.slow
def test_use_needs_no_torch(tmp_path):
    """Environments, data, vectors, baselines, measuring; and who wants more is told what to install."""
    done = subprocess.run([sys.executable, "-c", USE_WITHOUT_TORCH, str(tmp_path / "agent")], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    said = done.stdout.decode().splitlines()
    assert said[0] == "torch is not installed, but training needs it: pip install 'mdpfn[train]'."
    assert [line.rpartition("[")[2] for line in said] == ["train]'.", "plot]'.", "plot]'.", "train]'."]


def test_importing_the_agent_loads_nothing_that_is_slow_and_may_not_be_needed() -> None:
    heavy = ("torch", "numba", "matplotlib", "rich", "tyro", "scipy.special", "scipy.sparse.linalg", "scipy.stats")
    code = f"import sys; from mdpfn import Agent; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
