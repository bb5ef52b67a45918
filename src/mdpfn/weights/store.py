"""A model on disk: a bundle of weights and a card, in a directory named after the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from mdpfn.errors import MdpfnError
from mdpfn.network.network import NetworkConfig, PolicyNetwork
from mdpfn.network.planning import outlooks
from mdpfn.outlook import Outlook
from mdpfn.statistics import StatisticsBatch
from mdpfn.storage import DESCRIPTION, read_bundle, write_bundle
from mdpfn.told import Told

FORMAT = 1
DEFAULT_WEIGHTS = "mdpfn-1"
SHIPPED = Path(__file__).parent
Planner = Callable[[StatisticsBatch, Told], list[Outlook]]


@dataclass(frozen=True)
class Model:
    """A network ready to use, and its card: what it is, how it was made, what it can do."""

    name: str
    network: PolicyNetwork
    card: dict[str, Any]

    @property
    def exploration(self) -> Literal["softmax", "directed"]:
        """How an agent with this model explores unless it is told otherwise: the paper's way with its inputs."""
        return "softmax" if self.network.config.inputs == "plain" else "directed"


def shipped_models() -> list[str]:
    """Names of the models inside the package."""
    return sorted(path.parent.name for path in SHIPPED.glob(f"*/{DESCRIPTION}"))


def save_model(directory: Path, network: PolicyNetwork, card: dict[str, Any]) -> None:
    """Write a model; `card` holds whatever its users should know."""
    description = {"format": FORMAT, "network": asdict(network.config), **card}
    write_bundle(directory, network.state_dict(), description)


def load_model(name_or_path: str | Path) -> Model:
    """A shipped model by name, or any model by the path of its directory."""
    directory = _find(name_or_path)
    return build_model(directory, *read_bundle(directory))


def build_model(directory: Path, tensors: Mapping[str, Tensor], card: dict[str, Any]) -> Model:
    """The model with these weights and this card, which came from `directory`."""
    if card.get("format") != FORMAT or "network" not in card:
        limit = f"this version reads models of format {FORMAT}"
        raise MdpfnError("weights", f"{str(directory)!r} of format {card.get('format')}", limit, "match the versions")
    try:
        network = PolicyNetwork(NetworkConfig(**card["network"]))
        network.load_state_dict(tensors)
    except (TypeError, RuntimeError) as error:
        reason = str(error).splitlines()[-1].strip().rstrip(".")
        limit = f"its tensors must fit the network of its card ({reason})"
        raise MdpfnError("weights", repr(str(directory)), limit, "use another copy") from None
    return Model(directory.name, network.eval(), card)


def load_planner(name_or_path: str | Path, depth: int | None = None) -> Planner:
    """A function from statistics, and what is known beforehand, to the outlook of every MDP."""
    network = load_model(name_or_path).network
    return lambda statistics, told: outlooks(network, statistics, told, depth=depth)


def weights_hash(name_or_path: str | Path) -> str:
    """SHA-256 of the weights, for result files."""
    return str(read_bundle(_find(name_or_path))[1]["sha256"])


def _find(name_or_path: str | Path) -> Path:
    if str(name_or_path) in shipped_models():
        return SHIPPED / str(name_or_path)
    if (Path(name_or_path) / DESCRIPTION).is_file():
        return Path(name_or_path)
    names = ", ".join(shipped_models()) or "none yet"
    limit = f"it must be a shipped model ({names}) or a model directory"
    raise MdpfnError("weights", repr(str(name_or_path)), limit, "check the name")
