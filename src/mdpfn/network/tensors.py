"""From NumPy to torch and back: tokens for training, weights for use."""

from dataclasses import fields

import numpy as np
import torch
from torch import Tensor, nn

from mdpfn.network.network import PolicyNetwork
from mdpfn.network.numpy_network import NumpyNetwork
from mdpfn.network.packing import Tokens


def tensors_of(tokens: Tokens[np.ndarray], network: nn.Module) -> Tokens[Tensor]:
    """The same tokens as tensors of the float type of a network, on its device."""
    parameter = next(network.parameters())
    moved = {}
    for field in fields(tokens):
        value = getattr(tokens, field.name)
        if field.name not in ("n_states", "n_actions"):
            tensor = torch.from_numpy(value)
            value = tensor.to(parameter.device, parameter.dtype if tensor.is_floating_point() else None)
        moved[field.name] = value
    return Tokens(**moved)


def to_numpy(network: PolicyNetwork) -> NumpyNetwork:
    """The network as it is used."""
    weights = {name: tensor.detach().cpu().numpy().copy() for name, tensor in network.state_dict().items()}
    return NumpyNetwork(network.config, weights)


def to_torch(network: NumpyNetwork) -> PolicyNetwork:
    """The network as it is trained."""
    tensors = {name: torch.from_numpy(array.copy()) for name, array in network.weights.items()}
    found = PolicyNetwork(network.config).to(tensors["key.weight"].dtype)
    found.load_state_dict(tensors)
    return found.eval()
