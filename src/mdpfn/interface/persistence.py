"""An agent on disk: its weights or their name, what it observed, what things are called, and where it was."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from mdpfn.agents.in_context import InContext
from mdpfn.errors import MdpfnError
from mdpfn.interface.codec import Codec, LabelCodec
from mdpfn.interface.context import Context, Names, Options
from mdpfn.interface.history import History
from mdpfn.interface.limits import Limits
from mdpfn.interface.spaces import codec_of, labels_from_json, labels_to_json, space_from_json, space_to_json
from mdpfn.statistics import Statistics
from mdpfn.statistics_store import statistics_from_tensors, statistics_to_tensors
from mdpfn.storage import read_bundle, write_bundle
from mdpfn.version import __version__
from mdpfn.weights import Model, build_model, load_model, shipped_models, weights_hash

FORMAT = 1
WEIGHTS, STATISTICS, POLICY = "weights.", "statistics.", "acting_policy"


def write_agent(
    directory: Path, model: Model, settings: dict[str, Any], context: Context[InContext] | None, *, copy_weights: bool
) -> None:
    """Write everything an agent needs to go on. Weights that are not shipped are always copied."""
    tensors: dict[str, torch.Tensor] = {}
    description: dict[str, Any] = {"kind": "agent", "format": FORMAT, "version": __version__, "settings": settings}
    description["weights"] = {"name": model.name, "sha256": model.card.get("sha256")}
    if copy_weights or not _is_shipped(model):
        tensors |= {WEIGHTS + name: tensor for name, tensor in model.network.state_dict().items()}
        description["weights"]["card"] = model.card
    if context is not None:
        observed = statistics_to_tensors(context.learner.statistics)
        tensors |= {STATISTICS + name: tensor for name, tensor in observed.items()}
        if context.learner.acting_policy is not None:
            tensors[POLICY] = torch.from_numpy(context.learner.acting_policy)
        description["context"] = _context_to_json(context)
    write_bundle(directory, tensors, description)


def read_agent(directory: Path) -> tuple[Model, dict[str, Any], SavedContext | None]:
    """Model, settings and, if there is one, the problem the agent was in."""
    tensors, description = read_bundle(directory)
    if (description.get("kind"), description.get("format")) != ("agent", FORMAT):
        limit = f"it must hold an agent of format {FORMAT}"
        raise MdpfnError("the bundle", repr(str(directory)), limit, "match the versions")
    model = _read_model(description["weights"], tensors)
    saved = description.get("context")
    return model, description["settings"], None if saved is None else SavedContext(saved, tensors)


@dataclass(frozen=True)
class SavedContext:
    """A problem that an agent was in, as it was saved."""

    saved: dict[str, Any]
    tensors: dict[str, torch.Tensor]

    @property
    def statistics(self) -> Statistics:
        """What was observed."""
        return statistics_from_tensors(_named(STATISTICS, self.tensors))

    @property
    def options(self) -> Options:
        """What the user said about the problem."""
        given = self.saved["options"]
        return Options(**{**given, "reward_range": given["reward_range"] and tuple(given["reward_range"])})

    def names(self, limits: Limits) -> Names:
        """What states and actions are called."""
        observation_space = space_from_json(self.saved["observation_space"])
        action_space = space_from_json(self.saved["action_space"])
        states = codec_of(observation_space, "observation", limits.states, labels_from_json(self.saved["states"]))
        actions = codec_of(action_space, "action", limits.actions, labels_from_json(self.saved["actions"]))
        return Names(observation_space, action_space, states, actions)

    def restore(self, context: Context[InContext]) -> None:
        """Put a context where the saved one was."""
        learner, history = context.learner, self.saved["history"]
        learner.rng.bit_generator.state = self.saved["rng"]
        learner.steps_since_plan = self.saved["steps_since_plan"]
        if learner.explorer is not None:
            learner.explorer.resume(**self.saved["explorer"])
        if POLICY in self.tensors:
            learner.acting_policy = self.tensors[POLICY].numpy()
        context.starts_known, context.columns = self.saved["starts_known"], self.saved["columns"]
        context.history = History(
            returns=history["returns"],
            lengths=history["lengths"],
            seconds=history["seconds"],
            start_states=Counter(dict(history["start_states"])),
            under_way={environment: tuple(so_far) for environment, so_far in history["under_way"]},
        )


def _read_model(weights: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Model:
    if "card" in weights:
        return build_model(Path(weights["name"]), _named(WEIGHTS, tensors), weights["card"])
    model = load_model(weights["name"])
    if model.card.get("sha256") != weights["sha256"]:
        limit = f"the agent was saved with others of that name ({weights['sha256'][:12]}…)"
        raise MdpfnError("weights", repr(weights["name"]), limit, "use the version that saved it, or copy_weights")
    return model


def _is_shipped(model: Model) -> bool:
    return model.name in shipped_models() and weights_hash(model.name) == model.card.get("sha256")


def _context_to_json(context: Context[InContext]) -> dict[str, Any]:
    learner, history = context.learner, context.history
    return {
        "observation_space": space_to_json(context.names.observation_space),
        "action_space": space_to_json(context.names.action_space),
        "states": _appeared(context.names.states),
        "actions": _appeared(context.names.actions),
        "options": asdict(context.options),
        "rng": learner.rng.bit_generator.state,
        "steps_since_plan": learner.steps_since_plan,
        "explorer": None if learner.explorer is None else learner.explorer.progress(),
        "starts_known": context.starts_known,
        "columns": context.columns,
        "history": {
            "returns": history.returns,
            "lengths": history.lengths,
            "seconds": history.seconds,
            "start_states": sorted(history.start_states.items()),
            "under_way": sorted(history.under_way.items()),
        },
    }


def _appeared(codec: Codec) -> list[Any]:
    """The labels of a codec that grows; others need only their space."""
    return labels_to_json(codec.labels) if isinstance(codec, LabelCodec) and codec.growing else []


def _named(prefix: str, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
