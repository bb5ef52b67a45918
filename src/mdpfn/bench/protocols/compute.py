"""Loss and scores against training compute: the snapshots of a run, from its first steps to its end."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from mdpfn.bench.environments import ENVIRONMENTS
from mdpfn.bench.protocols import convergence
from mdpfn.bench.protocols.depth import PRIOR, DepthProtocol, measure_prior
from mdpfn.bench.protocols.methods import StoredWeights, stored_weights
from mdpfn.bench.protocols.results import Cell, Row
from mdpfn.errors import MdpfnError
from mdpfn.weights.store import SUFFIX

IDENTITY = ("environment", "mdps")
MEASURED = ("seed", "score", "episodes", "loss", "kl")
VALIDATION = "validation"  # stands in the column `environment` for what training measured on its own held-out MDPs


@dataclass(frozen=True)
class ComputeProtocol:
    """The measurements of each snapshot, at the depth of the paper's evaluation."""

    depth: int = 24
    prior: DepthProtocol = field(default_factory=DepthProtocol)
    online: convergence.ConvergenceProtocol = field(default_factory=convergence.ConvergenceProtocol)


def cells(protocol: ComputeProtocol, snapshots: Path) -> list[Cell]:
    """Every model in the directory `snapshots`, and the one that the run beside it ended with."""
    models = sorted(snapshots.glob(f"*{SUFFIX}"))
    if not models:
        limit = "it must hold the snapshots of a training run"
        raise MdpfnError("the directory", repr(str(snapshots)), limit, "train one first, with mdpfn train")
    models += snapshots.parent.glob(f"model{SUFFIX}")
    return [
        Cell(
            identity=(environment, mdps_seen(weights)),
            settings=protocol,
            weights_hash=weights.weights_hash,
            measure=partial(measure, protocol, environment, weights),
        )
        for weights in [stored_weights(str(model)) for model in models]
        for environment in (VALIDATION, PRIOR, *protocol.online.environments)
    ]


def mdps_seen(weights: StoredWeights) -> int:
    """How many MDPs a model was trained on, from its card."""
    return int(weights.load().card["training"]["mdps"])


def measure(protocol: ComputeProtocol, environment: str, weights: StoredWeights) -> list[Row]:
    """The loss on held-out MDPs, scores on others, or episodes to convergence (never: as many as it had)."""
    if environment == VALIDATION:
        trained = weights.load().card["training"]
        return [{"seed": 0, "loss": trained["validation_loss"], "kl": trained["validation_kl"]}]
    if environment == PRIOR:
        return measure_prior(protocol.prior, environment, weights, protocol.depth)
    paper = protocol.online.methods(weights)[-1]
    rows = convergence.measure(protocol.online, ENVIRONMENTS[environment], paper)
    return [{**row, "episodes": row["episodes"] or protocol.online.agent_max_episodes} for row in rows]
