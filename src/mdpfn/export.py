"""A policy as JSON, so that any language can act by it.

`examples/policy_reader.py` and `examples/policy_reader.js` read it in some forty lines each.
"""

from dataclasses import asdict
from typing import Any

import numpy as np

from mdpfn.online.in_context import InContextLearner
from mdpfn.online.problem import Problem
from mdpfn.online.vector_problem import VectorProblem
from mdpfn.result import Result
from mdpfn.spaces.binned import Binned
from mdpfn.spaces.json import to_json
from mdpfn.version import __version__

FORMAT, VERSION = "mdpfn-policy", 1
LEVELS = (0.1, 0.5, 0.9)  # of the quantiles of Q* that are given
NEIGHBOURS = 8  # nodes whose values are averaged, the nearer ones counting more
NODES_AT_ONCE = 64
DIGITS = 6


def policy_to_json(problem: Problem[InContextLearner] | VectorProblem, result: Result, sha256: str) -> dict[str, Any]:
    """The policy that `predict` follows now; for vectors, action values at nodes, to be interpolated between them."""
    content: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    content |= _nodes(problem) if isinstance(problem, VectorProblem) else _table(result)
    space = problem.encoding.observation_space
    if isinstance(space, Binned):  # states are known by the numbers of their bins
        content |= {"labels": content["states"], "bins": list(space.edges)}
        content["states"] = [list(space.numbers(state)) for state in result.plan.states]
    content["provenance"] = {
        "mdpfn": __version__,
        "weights": result.weights,
        "sha256": sha256,
        "options": asdict(problem.options),
        "transitions": result.n_transitions,
        "episodes": len(result.returns),
    }
    return content


def _table(result: Result) -> dict[str, Any]:
    """The policy as a table with a row per state and a column per action."""
    plan, coverage = result.plan, result.coverage
    n = len(plan.states)
    quantiles = None
    if plan.q_quantiles is not None:
        quantiles = np.stack([plan.q_at(level) for level in LEVELS], axis=-1)[:n]
    return {
        "kind": "table",
        "states": [to_json(state) for state in plan.states],
        "actions": [to_json(action) for action in plan.actions],
        "greedy": plan.greedy[:n].tolist(),
        "elsewhere": plan.action(len(plan.greedy)),
        "policy": numbers(plan.policy[:n]),
        "values": numbers(result.value.by_state[:n]),
        "q_levels": list(LEVELS) if quantiles is not None else [],
        "q": None if quantiles is None else numbers(quantiles),
        "visits": coverage.n_visits[:n].astype(int).tolist(),
        "masks": coverage.exists[:n].tolist(),
    }


def _nodes(problem: VectorProblem) -> dict[str, Any]:
    """The policy for vectors: action values at nodes, and the scale of each dimension in their distances."""
    learner, actions = problem.learner, problem.encoding.actions
    plan = learner.plan()
    states = np.zeros((0, problem.encoding.states.n_dims)) if plan is None else plan.nodes.states
    pieces = np.split(states, range(NODES_AT_ONCE, len(states), NODES_AT_ONCE))
    q = np.concatenate([learner.action_values(piece) for piece in pieces])
    return {
        "kind": "nodes",
        "neighbours": NEIGHBOURS,
        "scale": [1.0] * states.shape[1] if plan is None else numbers(plan.nodes.scale),
        "states": numbers(states),
        "actions": [to_json(actions.decode(number)) for number in range(actions.n)],
        "values": numbers(q.max(axis=1, initial=-np.inf)),
        "q": numbers(q),
    }


def numbers(values: Any) -> Any:
    """An array as nested lists of rounded numbers; None where a number is not finite."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim > 1 or (array.ndim and not np.isfinite(array).all()):
        return [numbers(part) for part in array]
    if array.ndim:
        return [float(f"{value:.{DIGITS}g}") for value in array.tolist()]
    return float(array) if np.isfinite(array) else None
