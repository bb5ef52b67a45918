"""What each ingredient of the flagship model brings: short trainings without it, scored on the same problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from mdpfn.bench.environments import ENVIRONMENTS
from mdpfn.bench.protocols.methods import IN_CONTEXT, Method, StoredWeights
from mdpfn.bench.protocols.offline_leaderboard import OfflineLeaderboardProtocol
from mdpfn.bench.protocols.offline_leaderboard import measure as measure_offline
from mdpfn.bench.protocols.parallel import entropy, measure_cells
from mdpfn.bench.protocols.results import Cell, ResultsFile, Row
from mdpfn.network.network import PolicyNetwork
from mdpfn.prior.world import FAMILIES, MIXTURE, WorldConfig, sample_world
from mdpfn.training.config import CONFIGS, TrainingConfig
from mdpfn.training.held_out import held_out_batches, validate_batches
from mdpfn.training.loop import Trainer
from mdpfn.training.tasks import TaskConfig
from mdpfn.weights import save_model

IDENTITY = ("variant",)
MEASURED = ("problems", "measure", "value")
ENVIRONMENTS_OFFLINE = "environments"  # what `problems` are called that are those of the offline leaderboard
ALL_FAMILIES = "all families"
BASE = "mdpfn-1"


@dataclass(frozen=True)
class AblationProtocol:
    """How long each variant is trained, and on how much it is scored."""

    steps: int = 600
    batch_size: int = 64
    worlds_per_family: int = 128
    tasks: TaskConfig = field(default_factory=TaskConfig)
    data: OfflineLeaderboardProtocol = field(default_factory=lambda: OfflineLeaderboardProtocol(seeds=2))
    environments: tuple[str, ...] = tuple(ENVIRONMENTS)


def variants(protocol: AblationProtocol) -> Mapping[str, TrainingConfig]:
    """Every configuration by the name of what it changes."""
    complete = CONFIGS[BASE]
    assert complete.tasks is not None
    base = replace(
        complete,
        tasks=replace(complete.tasks, slots=4 * protocol.batch_size),
        steps=protocol.steps,
        batch_size=protocol.batch_size,
        warmup_steps=min(100, protocol.steps),
        average_decay=0.99,
        validation_mdps=1,  # the protocol scores, on more than that
        validate_every=250,
        checkpoint_every=250,
    )
    network, tasks, objective = base.network, base.tasks, base.objective
    assert tasks is not None
    plain = replace(network, inputs="plain", quantiles=(), action_pooling=False)
    changes: dict[str, TrainingConfig] = {
        BASE: base,
        "no plans to read": replace(base, network=plain),
        "untried actions alike": replace(base, network=replace(network, action_pooling=False)),
        "no pool of lives": replace(base, tasks=replace(tasks, behaviours=(1.0, 0.0, 0.0, 0.0))),
        "no quantiles": replace(base, network=replace(network, quantiles=())),
        "no return in the objective": replace(base, objective=replace(objective, lost_return=0.0)),
        "return of a softer policy": replace(base, objective=replace(objective, exploiting_temperature=1.0)),
        "width 32": replace(base, network=replace(network, width=32)),
        "width 128": replace(base, network=replace(network, width=128)),
        "depth 1": replace(base, min_depth=1, max_depth=1, network=replace(network, depth=1)),
        "depth 2 to 12": replace(base, min_depth=2, max_depth=12, network=replace(network, depth=6, trained_depth=12)),
        "dropout": replace(base, network=replace(network, dropout=0.05)),
        "AdamW": replace(base, optimizer="adamw"),
    }
    for name in FAMILIES:
        families = {family: weight for family, weight in MIXTURE.items() if family != name}
        changes[f"without {name}"] = replace(base, world=replace(base.world, families=families))
    return changes


def run(protocol: AblationProtocol, path: Path, *, command: str, workers: int) -> None:
    """Train and score every variant into the CSV file at `path`."""
    cells = [
        Cell(
            identity=(name,),
            settings=(protocol, config),
            weights_hash="",
            measure=partial(measure, protocol, config),
        )
        for name, config in variants(protocol).items()
    ]
    measure_cells(cells, ResultsFile(path, IDENTITY, MEASURED, command), workers=workers, title="ablations")


def measure(protocol: AblationProtocol, config: TrainingConfig) -> list[Row]:
    """Rows of held-out worlds of every family, and of the environments of the offline leaderboard."""
    network = trained(config)
    rows: list[Row] = []
    for family in FAMILIES:
        sampler = partial(sample_world, config=WorldConfig(families={family: 1.0}))
        seed = entropy("ablations", family)
        training_batches = held_out_batches(
            protocol.tasks, sampler, seed, protocol.worlds_per_family, config.target_temperature, config.network.inputs
        )
        found = validate_batches(network, training_batches, config.objective)
        names = {"greedy_score": "score", "kl": "kl", "pinball": "pinball"}
        values = {name: found[f"validation_{key}"] for key, name in names.items() if f"validation_{key}" in found}
        values["certain score"] = found["certain_score"]
        rows += [{"problems": family, "measure": name, "value": value} for name, value in values.items()]
    score = environment_score(protocol, network)
    return [*rows, *averages(rows), {"problems": ENVIRONMENTS_OFFLINE, "measure": "score", "value": score}]


def averages(rows: list[Row]) -> list[Row]:
    """The means of all measures over the families, as often as the prior has them."""
    totals: dict[str, float] = {}
    for row in rows:
        weight = MIXTURE[str(row["problems"])] / sum(MIXTURE.values())
        totals[str(row["measure"])] = totals.get(str(row["measure"]), 0.0) + weight * float(row["value"] or 0)
    return [{"problems": ALL_FAMILIES, "measure": name, "value": value} for name, value in totals.items()]


def trained(config: TrainingConfig) -> PolicyNetwork:
    """The network after all steps of a configuration, ready for use."""
    with TemporaryDirectory() as directory:
        trainer = Trainer(config, Path(directory))
        for _ in range(config.steps):
            trainer.step_once(trainer.network)
        return trainer.averaged_network().eval()


def environment_score(protocol: AblationProtocol, network: PolicyNetwork) -> float:
    """The mean over environments, seeds and sizes of the data set of the clipped score."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "variant.safetensors"
        save_model(path, network, {})
        method = Method(IN_CONTEXT, weights=StoredWeights("variant", "", str(path)))
        scores = []
        for name in protocol.environments:
            rows = measure_offline(protocol.data, ENVIRONMENTS[name], method)
            scores.append(np.clip([float(row["score"] or 0) for row in rows], 0, 1).mean())
    return float(np.mean(scores))
