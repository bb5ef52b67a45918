"""A model on disk: a file with its weights and its card, named after the model."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from mdpfn.checks import a_path
from mdpfn.errors import MdpfnError, shown
from mdpfn.network.config import NetworkConfig
from mdpfn.network.numpy_network import NumpyNetwork
from mdpfn.storage import read_bundle, write_bundle

FORMAT = 2
OLD_FIELDS = {"elsewhere": "action_pooling"}  # of the network's configuration in format 1
OLD_TENSORS = {"elsewhere.": "action_pooling.", "plans.": "plan_residual."}  # the beginnings of names in format 1
DEFAULT_WEIGHTS = "mdpfn-2"
SHIPPED = Path(__file__).parent
SUFFIX = ".safetensors"
LARGEST_DEPTH = 1_000  # propagation steps of a plan


@dataclass(frozen=True)
class Model:
    """A network ready to use, and its card with configuration, training and results."""

    name: str
    network: NumpyNetwork
    card: dict[str, Any]

    def __post_init__(self) -> None:
        training = _part(self.card, "training")
        config = _part(training, "config")
        for part in ("prior", "world"):
            _part(config, part)
        if self.network.config.depth > LARGEST_DEPTH:
            limit = f"a plan takes at most {LARGEST_DEPTH} steps"
            raise MdpfnError("depth", self.network.config.depth, limit, "use other weights")

    @property
    def exploration(self) -> Literal["softmax", "directed"]:
        """How an agent with this model explores unless it is told otherwise: the paper's way with its inputs."""
        return "softmax" if self.network.config.inputs == "plain" else "directed"

    @property
    def prior(self) -> dict[str, Any] | None:
        """The configuration of the prior over worlds that it was trained on; None where it was the paper's."""
        config: dict[str, Any] = (self.card.get("training") or {}).get("config") or {}
        return config.get("world") if config.get("tasks") or config.get("lives") else None


def shipped_models() -> list[str]:
    """Names of the models inside the package."""
    return sorted(path.stem for path in SHIPPED.glob(f"*{SUFFIX}"))


def save_model(path: Path, network: NumpyNetwork, card: dict[str, Any]) -> None:
    """Write a model; `card` holds whatever its users should know."""
    description = {**card, "format": FORMAT, "network": asdict(network.config)}
    write_bundle(path, network.weights, description)


def load_model(name_or_path: str | Path) -> Model:
    """A shipped model by name, or any model by the path of its file."""
    path = _find(name_or_path)
    return build_model(path.stem, *read_bundle(path))


def build_model(name: str, arrays: Mapping[str, NDArray[Any]], card: dict[str, Any]) -> Model:
    """The model with these weights and this card."""
    if card.get("format") not in (1, FORMAT) or not isinstance(card.get("network"), dict):
        value = f"{name!r} of format {card.get('format')!r}, with the network {str(card.get('network'))[:20]!r}"
        limit = f"a model has the format 1 or {FORMAT} and says what its network is"
        raise MdpfnError("weights", value, limit, "match the versions")
    config = {OLD_FIELDS.get(field, field): value for field, value in card["network"].items()}
    try:
        network = NumpyNetwork(NetworkConfig(**config), {_present_name(n): array for n, array in arrays.items()})
    except MdpfnError:  # which is a ValueError, and says more
        raise
    except (TypeError, ValueError) as error:
        limit = f"its tensors must fit the network of its card ({error})"
        raise MdpfnError("weights", repr(name), limit, "use another copy") from None
    return Model(name, network, card)


def weights_hash(name_or_path: str | Path) -> str:
    """SHA-256 of the weights, for result files."""
    return str(read_bundle(_find(name_or_path))[1]["sha256"])


def _part(card: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A part of a card that has parts of its own, empty where there is none."""
    part = card.get(name) or {}
    if not isinstance(part, dict):
        raise MdpfnError("weights", f"with {shown(part)} for {name} on their card", "it must be an object", "mend it")
    return part


def _present_name(name: str) -> str:
    for old, new in OLD_TENSORS.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def _find(name_or_path: str | Path) -> Path:
    name_or_path = a_path(name_or_path)
    if str(name_or_path) in shipped_models():
        return SHIPPED / f"{name_or_path}{SUFFIX}"
    if os.path.exists(name_or_path):  # Path.exists raises what cannot be a path
        return Path(name_or_path)
    names = ", ".join(shipped_models()) or "none yet"
    limit = f"it must be a shipped model ({names}) or the file of a model"
    raise MdpfnError("weights", repr(str(name_or_path)), limit, "check the name")
