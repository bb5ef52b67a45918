"""What a protocol measures: an agent with its options, or the in-context agent around a stored planner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mdpfn.agents import AGENTS, OFFLINE_AGENTS, Agent, InContext
from mdpfn.agents.in_context import Exploration, Planner
from mdpfn.mdp import TabularMDP
from mdpfn.prior.world import WorldConfig

IN_CONTEXT = "in-context"
HASH_DIGITS = 12  # of the hash of the weights, in result files


@dataclass(frozen=True)
class StoredPlanner:
    """A network by name. `load(depth)` reads it where it is used: this travels to workers, the network does not."""

    name: str
    weights_hash: str
    exploration: Exploration  # what the model was made for
    load: Callable[[int | None], Planner]
    levels: tuple[float, ...] = ()  # of its quantiles of Q*
    world: WorldConfig | None = None  # the richer prior as it was trained on; None: the paper's prior


def stored_planner(weights: str) -> StoredPlanner:
    """The planner with these weights: the name of shipped ones, or a path."""
    from mdpfn.weights import load_model  # late: it imports torch

    model = load_model(weights)
    return StoredPlanner(
        name=model.name,
        weights_hash=str(model.card["sha256"])[:HASH_DIGITS],
        exploration=model.exploration,
        load=partial(_load, weights),
        levels=model.network.config.quantiles,
        world=_world(model.card),
    )


def _world(card: Mapping[str, Any]) -> WorldConfig | None:
    """The richer prior that this model lived in, if it did."""
    from mdpfn.training.config import from_dict

    config = card.get("training", {}).get("config", {})
    return from_dict(WorldConfig, config["world"]) if config.get("lives") else None


def _load(weights: str, depth: int | None) -> Planner:
    from mdpfn.weights import load_planner

    return load_planner(weights, depth)


@dataclass(frozen=True)
class Method:
    """An agent by its name in result files, with the options it is made with; in-context if it has a `planner`.

    `depth` is the depth K at which the network is unrolled, by default its own; `kind` makes the in-context agent.
    """

    name: str
    options: Mapping[str, float] = field(default_factory=dict)
    planner: StoredPlanner | None = None
    depth: int | None = None
    kind: type[InContext] = InContext

    @property
    def identity(self) -> tuple[str, str, int | None]:
        """Name, weights and depth: the columns that tell methods apart in result files."""
        return self.name, self.planner.name if self.planner else "", self.depth

    @property
    def weights_hash(self) -> str:
        """The hash of the weights, empty where there are none."""
        return self.planner.weights_hash if self.planner else ""

    def maker(self, mdp: TabularMDP, **told: object) -> Callable[..., Agent]:
        """Makes agents for this MDP, of which they know the sizes, the discount and what they are `told`."""
        kind: Callable[..., Agent]
        if self.planner is not None:
            kind = partial(self.kind, planner=self.planner.load(self.depth), exploration=self.planner.exploration)
        else:
            kind = {**OFFLINE_AGENTS, **AGENTS}[self.name]
        return partial(kind, mdp.n_states, mdp.n_actions, discount=mdp.discount, **self.options, **told)
