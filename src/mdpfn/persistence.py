"""An agent on disk: its weights or their name, what it observed, what things are called, and where it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdpfn.errors import MdpfnError
from mdpfn.evidence import Statistics
from mdpfn.evidence.store import statistics_from_arrays, statistics_to_arrays
from mdpfn.exploration.clock import Clock
from mdpfn.exploration.earning import Carried
from mdpfn.online.history import History, UnderWay
from mdpfn.online.in_context import InContextLearner
from mdpfn.online.options import Options
from mdpfn.online.problem import Problem
from mdpfn.online.vector_problem import VectorProblem
from mdpfn.online.vector_store import learner_to_arrays, restore_learner
from mdpfn.spaces.codec import Codec, LabelCodec
from mdpfn.spaces.encoding import SpaceEncoding
from mdpfn.spaces.json import labels_from_json, labels_to_json, space_from_json, space_to_json
from mdpfn.storage import read_bundle, write_bundle
from mdpfn.version import __version__
from mdpfn.weights import Model, build_model, load_model, shipped_models, weights_hash
from mdpfn.weights.limits import Limits

FORMATS = (1, 2)  # 1: without discounted returns, and with another way to keep the time
WEIGHTS, STATISTICS, EXPLORER, POLICY, VECTORS = "weights.", "statistics.", "explorer.", "acting_policy", "vectors."

Arrays = dict[str, NDArray[Any]]


def write_agent(
    path: Path,
    model: Model,
    settings: dict[str, Any],
    problem: Problem[InContextLearner] | VectorProblem | None,
    *,
    copy_weights: bool,
) -> None:
    """Write everything an agent needs to go on. Weights that are not shipped are always copied."""
    arrays: Arrays = {}
    description: dict[str, Any] = {"kind": "agent", "format": FORMATS[-1], "version": __version__, "settings": settings}
    description["weights"] = {"name": model.name, "sha256": model.card.get("sha256")}
    if copy_weights or not _is_shipped(model):
        from mdpfn.weights.store import FORMAT

        arrays |= {WEIGHTS + name: tensor.numpy() for name, tensor in model.network.state_dict().items()}
        description["weights"]["card"] = {**model.card, "format": FORMAT, "network": asdict(model.network.config)}
    if isinstance(problem, VectorProblem):
        arrays |= {VECTORS + name: array for name, array in learner_to_arrays(problem.learner).items()}
        description["context"] = _problem_to_json(problem)
    elif problem is not None:
        observed = statistics_to_arrays(problem.learner.evidence)
        arrays |= {STATISTICS + name: array for name, array in observed.items()}
        if problem.learner.explorer is not None:
            arrays |= {EXPLORER + name: array for name, array in vars(problem.learner.explorer.carried).items()}
        if problem.learner.acting_policy is not None:
            arrays[POLICY] = problem.learner.acting_policy
        description["context"] = _problem_to_json(problem)
    write_bundle(path, arrays, description)


def read_agent(path: Path) -> tuple[Model, dict[str, Any], SavedProblem | None]:
    """Model, settings and, if there is one, the problem the agent was in."""
    arrays, description = read_bundle(path)
    if description.get("kind") != "agent" or description.get("format") not in FORMATS:
        limit = f"it must hold an agent of format {' or '.join(map(str, FORMATS))}"
        raise MdpfnError("the file", repr(str(path)), limit, "match the versions")
    model = _read_model(description["weights"], arrays)
    saved = description.get("context")
    return model, description["settings"], None if saved is None else SavedProblem(saved, arrays)


@dataclass(frozen=True)
class SavedProblem:
    """A problem that an agent was in, as it was saved."""

    saved: dict[str, Any]
    arrays: Arrays

    @property
    def statistics(self) -> Statistics:
        """What was observed."""
        return statistics_from_arrays(_named(STATISTICS, self.arrays))

    @property
    def options(self) -> Options:
        """What the user said about the problem."""
        given = self.saved["options"]
        return Options(**{**given, "reward_range": given["reward_range"] and tuple(given["reward_range"])})

    def encoding(self, limits: Limits) -> SpaceEncoding:
        """What states and actions are called."""
        return SpaceEncoding.of(
            space_from_json(self.saved["observation_space"]),
            space_from_json(self.saved["action_space"]),
            largest=(limits.states, limits.actions),
            states=labels_from_json(self.saved["states"]),
            actions=labels_from_json(self.saved["actions"]),
        )

    @property
    def holds_vectors(self) -> bool:
        """Whether observations were vectors."""
        return any(name.startswith(VECTORS) for name in self.arrays)

    def vector_problem(self, limits: Limits) -> VectorProblem:
        """The problem with vectors for observations, where the saved one was."""
        spaces = space_from_json(self.saved["observation_space"]), space_from_json(self.saved["action_space"])
        problem = VectorProblem.fresh(*spaces, self.options, limits, seed=None)
        restore_learner(problem.learner, _named(VECTORS, self.arrays))
        self._restore_run(problem)
        return problem

    def restore(self, problem: Problem[InContextLearner]) -> None:
        """Put a problem where the saved one was."""
        learner = problem.learner
        self._restore_run(problem)
        carried = _named(EXPLORER, self.arrays)
        if learner.explorer is not None and carried:
            learner.explorer.carried = Carried(**{name: array.copy() for name, array in carried.items()})
        learner.has_plan = self.saved.get("has_plan", POLICY in self.arrays)
        if POLICY in self.arrays:
            learner.acting_policy = self.arrays[POLICY].copy()

    def _restore_run(self, problem: Problem[InContextLearner] | VectorProblem) -> None:
        """What the saved problem had lived through."""
        problem.learner.rng.bit_generator.state = self.saved["rng"]
        problem.learner.clock = _clock(self.saved)
        problem.starts_known, problem.columns = self.saved["starts_known"], self.saved["columns"]
        problem.history = _history(self.saved["history"], problem.options.discount)


def _clock(saved: Mapping[str, Any]) -> Clock:
    """Where in its life the agent was; format 1 kept it in the explorer."""
    if "clock" in saved:
        return Clock(**saved["clock"])
    explorer = saved.get("explorer") or {"episode": len(saved["history"]["returns"]), "news": 0}
    step = sum(length for _, (_, length) in saved["history"]["under_way"])
    return Clock(explorer["episode"], None, step, saved["steps_since_plan"], bool(explorer["news"]))


def _history(saved: Mapping[str, Any], discount: float) -> History:
    """How episodes went; format 1 did not know discounted returns."""
    unknown = [np.nan] * len(saved["returns"])
    under_way = {}
    for environment, (total, *discounted, length) in saved["under_way"]:
        under_way[environment] = UnderWay(total, sum(discounted), length)
    return History(
        discount,
        returns=saved["returns"],
        discounted_returns=saved.get("discounted_returns", unknown),
        lengths=saved["lengths"],
        seconds=saved["seconds"],
        start_states=Counter(dict(saved["start_states"])),
        under_way=under_way,
    )


def _read_model(weights: dict[str, Any], arrays: Arrays) -> Model:
    if "card" in weights:
        return build_model(weights["name"], _named(WEIGHTS, arrays), weights["card"])
    model = load_model(weights["name"])
    if model.card.get("sha256") != weights["sha256"]:
        limit = f"the agent was saved with others of that name ({weights['sha256'][:12]}…)"
        raise MdpfnError("weights", repr(weights["name"]), limit, "use the version that saved it, or copy_weights")
    return model


def _is_shipped(model: Model) -> bool:
    return model.name in shipped_models() and weights_hash(model.name) == model.card.get("sha256")


def _problem_to_json(problem: Problem[InContextLearner] | VectorProblem) -> dict[str, Any]:
    learner, history, encoding = problem.learner, problem.history, problem.encoding
    return {
        "observation_space": space_to_json(encoding.observation_space),
        "action_space": space_to_json(encoding.action_space),
        "states": _appeared(encoding.states),
        "actions": _appeared(encoding.actions),
        "options": asdict(problem.options),
        "rng": learner.rng.bit_generator.state,
        "clock": asdict(learner.clock),
        "has_plan": isinstance(learner, InContextLearner) and learner.has_plan,
        "starts_known": problem.starts_known,
        "columns": problem.columns,
        "history": {
            "returns": history.returns,
            "discounted_returns": history.discounted_returns,
            "lengths": history.lengths,
            "seconds": history.seconds,
            "start_states": sorted(history.start_states.items()),
            "under_way": [(i, (e.total, e.discounted, e.length)) for i, e in sorted(history.under_way.items())],
        },
    }


def _appeared(codec: Codec) -> list[Any]:
    """The labels of a codec that grows; others need only their space."""
    return labels_to_json(codec.labels) if isinstance(codec, LabelCodec) and codec.growing else []


def _named(prefix: str, arrays: Arrays) -> Arrays:
    """The arrays whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
