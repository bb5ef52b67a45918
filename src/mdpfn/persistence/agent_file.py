"""The file of an agent: weights or their name, evidence, names of states and actions, and the state of its run."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from mdpfn.errors import MdpfnError, shown
from mdpfn.evidence.store import statistics_to_arrays
from mdpfn.online.in_context import InContextLearner
from mdpfn.online.problem import Problem
from mdpfn.online.vector_problem import VectorProblem
from mdpfn.online.vector_store import Arrays, learner_to_arrays
from mdpfn.persistence.saved_problem import EXPLORER, FORESEEN, POLICY, STATISTICS, VECTORS, SavedProblem, named
from mdpfn.spaces.codec import Codec, LabelCodec
from mdpfn.spaces.json import labels_to_json, space_to_json
from mdpfn.storage import read_bundle, write_bundle
from mdpfn.version import __version__
from mdpfn.weights import Model, build_model, load_model, shipped_models, weights_hash
from mdpfn.weights.store import FORMAT

FORMATS = (1, 2)  # 1: without discounted returns, and with another way to keep the time
WEIGHTS = "weights."


def write_agent(
    path: Path,
    model: Model,
    settings: dict[str, Any],
    problem: Problem[InContextLearner] | VectorProblem | None,
    *,
    copy_weights: bool,
) -> None:
    """Write everything an agent needs to continue. Weights that are not shipped are always copied."""
    arrays: Arrays = {}
    description: dict[str, Any] = {"kind": "agent", "format": FORMATS[-1], "version": __version__, "settings": settings}
    description["weights"] = {"name": model.name, "sha256": model.card.get("sha256")}
    if copy_weights or not _is_shipped(model):
        arrays |= {WEIGHTS + name: array for name, array in model.network.weights.items()}
        description["weights"]["card"] = {**model.card, "format": FORMAT, "network": asdict(model.network.config)}
    if isinstance(problem, VectorProblem):
        arrays |= {VECTORS + name: array for name, array in learner_to_arrays(problem.learner).items()}
        description["context"] = _problem_to_json(problem)
    elif problem is not None:
        observed = statistics_to_arrays(problem.learner.evidence)
        arrays |= {STATISTICS + name: array for name, array in observed.items()}
        if problem.learner.explorer is not None:
            arrays |= {EXPLORER + name: array for name, array in vars(problem.learner.explorer.carried).items()}
        arrays |= {FORESEEN + name: array for name, array in vars(problem.learner.foreseen).items()}
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


def _read_model(weights: dict[str, Any], arrays: Arrays) -> Model:
    if "card" in weights:
        return build_model(str(weights["name"]), named(WEIGHTS, arrays), weights["card"])
    if weights["name"] not in shipped_models():  # a file must not make its reader open others
        limit = f"the agent needs weights that come with this version ({', '.join(shipped_models())})"
        raise MdpfnError("weights", shown(weights["name"]), limit, "use the version that saved it, or copy_weights")
    model = load_model(weights["name"])
    if model.card.get("sha256") != weights["sha256"]:
        limit = f"the agent was saved with others of that name ({str(weights['sha256'])[:12]}…)"
        raise MdpfnError("weights", shown(weights["name"]), limit, "use the version that saved it, or copy_weights")
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
        "features": _features_to_json(learner),
        "rng": learner.rng.bit_generator.state,
        "clock": asdict(learner.clock),
        "has_plan": isinstance(learner, InContextLearner) and learner.has_plan,
        "starts_known": problem.starts_known,
        "columns": problem.columns,
        "notes": dict(problem.notes),
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


def _features_to_json(learner: Any) -> list[Any] | None:
    """The features that the user gave, state by state: a function cannot be saved, but its values can."""
    completion = learner.completion if isinstance(learner, InContextLearner) else None
    rows = None if completion is None else completion.factors.table()
    return None if rows is None else [None if row is None else labels_to_json(row) for row in rows]
