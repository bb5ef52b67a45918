"""Everything a training run depends on, as data: named configurations, or a JSON file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from mdpfn.checks import check_range, check_types
from mdpfn.errors import MdpfnError
from mdpfn.network.config import NetworkConfig, Rounding
from mdpfn.planners.output import MIXING_TEMPERATURE
from mdpfn.prior.paper import PriorConfig
from mdpfn.prior.world import WorldConfig
from mdpfn.training.tasks import TaskConfig

T = TypeVar("T")
NAMED = 8  # fields that an error names


@dataclass(frozen=True)
class ObjectiveConfig:
    """Weights of the parts of the objective in training on tasks; the paper's objective is cross-entropy alone."""

    cross_entropy: float = 0.3
    final_cross_entropy: float | None = None  # what its weight falls to, linearly, by the end; None: it does not
    lost_return: float = 3.0
    exploiting_temperature: float = MIXING_TEMPERATURE  # of the policy whose return counts: nearly greedy, as at use
    quantiles: float = 0.3

    def __post_init__(self) -> None:
        check_types(self)

    def at(self, progress: float) -> ObjectiveConfig:
        """The weights when this share of training is done."""
        if self.final_cross_entropy is None:
            return self
        last = self.final_cross_entropy
        return replace(self, cross_entropy=last + (1 - min(progress, 1.0)) * (self.cross_entropy - last))


@dataclass(frozen=True)
class TrainingConfig:
    """The paper's settings (A.3, A.5) unless said otherwise."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    prior: PriorConfig = field(default_factory=PriorConfig)
    budget: tuple[float, float] = (0.1, 10.0)  # mean visits per pair
    world: WorldConfig = field(default_factory=WorldConfig)  # the richer prior, where MDPs are lived in …
    tasks: TaskConfig | None = None  # … None: fresh MDPs of the paper's prior and fresh data in every step
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    target_temperature: float = 0.2  # τ of the target policy
    batch_size: int = 128  # MDPs per step, over all processes
    steps: int = 15_000
    optimizer: Literal["adamw", "muon"] = "adamw"  # muon: for the matrices of the K tied steps; AdamW for the rest
    learning_rate: float = 3e-4
    warmup_steps: int = 500
    final_learning_rate: float = 0.1  # where the cosine ends, as a fraction
    weight_decay: float = 0.01
    gradient_clip: float = 0.5
    rounding: Rounding = "none"  # of factors in the products of the K steps, on processors that are fast at it
    average_decay: float = 0.0  # of the exponential moving average of the weights; 0: none
    min_depth: int | None = None  # depth uniform in min_depth … max_depth, one draw per step; None: network.depth
    max_depth: int | None = None
    start_from: str | None = None  # weights to begin with, by name or path; None: random ones
    seed: int = 0
    validation_mdps: int = 512
    validate_every: int = 250
    checkpoint_every: int = 250

    def __post_init__(self) -> None:
        check_types(self)
        for name, low in (("batch_size", 1), ("steps", 1), ("warmup_steps", 0), ("validation_mdps", 1),
                          ("validate_every", 1), ("checkpoint_every", 1), ("weight_decay", 0)):  # fmt: skip
            if getattr(self, name) < low:
                raise MdpfnError(name, getattr(self, name), f"it must be at least {low}", "correct the configuration")
        for name in ("target_temperature", "learning_rate", "gradient_clip"):
            if not getattr(self, name) > 0:
                raise MdpfnError(name, getattr(self, name), "it must be positive", "correct the configuration")
        if not 0 <= self.seed < 2**32:
            raise MdpfnError("seed", self.seed, "it must lie in [0, 2³²)", "choose a smaller number")
        if not 0 <= self.final_learning_rate <= 1:
            limit = "it is a fraction of learning_rate, in [0, 1]"
            raise MdpfnError("final_learning_rate", self.final_learning_rate, limit, "correct the configuration")
        if not 0 <= self.average_decay < 1:
            raise MdpfnError("average_decay", self.average_decay, "it must lie in [0, 1)", "use a value such as 0.999")
        check_range("budget", self.budget)
        if self.tasks is None and self.network.inputs == "planned":
            raise MdpfnError("inputs", "'planned'", "planned inputs go with tasks", "change network.inputs or tasks")
        low, high = self.depths
        if not 1 <= low <= high:
            raise MdpfnError("min_depth", low, f"it must lie in 1 … max_depth = {high}", "lower it or raise the depth")

    @property
    def depths(self) -> tuple[int, int]:
        """The smallest and the largest depth K a step is run at."""
        own = self.network.depth
        return own if self.min_depth is None else self.min_depth, own if self.max_depth is None else self.max_depth

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return plain


CONFIGS: Mapping[str, TrainingConfig] = MappingProxyType(
    {
        "paper": TrainingConfig(rounding="bfloat16", checkpoint_every=50),  # the appendix; of visits see most_visits
        # Evidence mostly as the shipped explorer gathers it; what counts shifts from the policy to its return.
        "mdpfn-2": TrainingConfig(
            network=NetworkConfig(
                width=64,
                n_heads=4,
                depth=1,
                trained_depth=1,
                dropout=0.0,
                inputs="planned",
                quantiles=(0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95),
                action_pooling=True,
            ),
            world=WorldConfig(n_actions=(2, 24)),
            tasks=TaskConfig(slots=256, steps=(10, 200), behaviours=(0.15, 0.25, 0.15, 0.05, 0.4)),
            objective=ObjectiveConfig(final_cross_entropy=0.03),
            target_temperature=0.25,
            batch_size=64,
            steps=10_000,
            optimizer="muon",
            learning_rate=2e-3,
            warmup_steps=300,
            final_learning_rate=0.02,
            gradient_clip=1.0,
            average_decay=0.999,
            min_depth=1,
            max_depth=1,
            validation_mdps=1024,
            validate_every=500,
            checkpoint_every=500,
        ),
        "tiny": TrainingConfig(
            network=NetworkConfig(width=32, n_heads=4, depth=8, dropout=0.0),
            prior=PriorConfig(n_states=(2, 16)),
            batch_size=32,
            steps=600,
            learning_rate=3e-3,
            warmup_steps=30,
            final_learning_rate=0.0,
            validation_mdps=128,
            validate_every=100,
            checkpoint_every=200,
        ),
    }
)


def load_config(name_or_path: str) -> TrainingConfig:
    """A named configuration, or the one a JSON file describes; fields it leaves out keep their defaults."""
    if name_or_path in CONFIGS:
        return CONFIGS[name_or_path]
    path = Path(name_or_path)
    if not path.is_file():
        limit = f"it must be one of {', '.join(CONFIGS)} or a JSON file"
        raise MdpfnError("config", repr(name_or_path), limit, "check it")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        limit = f"it must be a readable file of valid JSON ({error})"
        raise MdpfnError("config", repr(str(path)), limit, "correct the file") from None
    return from_dict(TrainingConfig, values)


def from_dict(kind: type[T], values: object) -> T:
    """The (nested) dataclass with these values; unknown names are refused."""
    if not isinstance(values, dict):
        raise MdpfnError(kind.__name__, repr(values), "it must be a JSON object", "write { … }")
    hints = get_type_hints(kind)
    for name in values:
        if name not in hints:
            near = get_close_matches(name, hints, cutoff=0.4) or list(hints)
            limit = f"it has no such field; some that it has are {', '.join(near[:NAMED])}"
            raise MdpfnError(kind.__name__, f"given {name!r}", limit, "correct the name")
    converted = {}
    for name, value in values.items():
        parts = [hints[name], *get_args(hints[name])]
        nested = next((part for part in parts if isinstance(part, type) and dataclasses.is_dataclass(part)), None)
        if nested is not None and not (value is None and type(None) in parts):
            value = from_dict(nested, value)
        converted[name] = tuple(value) if isinstance(value, list) else value
    return kind(**converted)
