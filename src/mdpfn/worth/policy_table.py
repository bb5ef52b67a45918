"""Policies in any form that people have them in, as tables of probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.errors import MdpfnError, shown
from mdpfn.plan import Plan
from mdpfn.planners.policies import one_hot

PolicyLike: TypeAlias = Any
"""A table (S, A) or (S,), a mapping or a function from states to actions, "logged", or a `Plan`."""


def as_table(policy: PolicyLike, plan: Plan) -> Floats:
    """(S, A) probabilities of a policy in any of its forms; one that takes actions that do not exist is refused."""
    table = _table(policy, plan)
    taken = table * plan.decides[:, None]
    if (taken[~np.isfinite(plan.policy_logits)] > 0).any():
        limit = "it takes actions that do not exist"
        raise MdpfnError("policy", f"of type {type(policy).__name__}", limit, "leave these out")
    return table


def _table(policy: PolicyLike, plan: Plan) -> Floats:
    shape = plan.policy_logits.shape
    if isinstance(policy, Plan):
        if policy.policy_logits.shape != shape:
            limit = f"this problem has {shape[0]} states and {shape[1]} actions"
            raise MdpfnError("policy", repr(policy), limit, "give a plan of the same problem")
        return policy.recommended
    if isinstance(policy, Mapping) or callable(policy):
        return _named(policy, plan)
    table = np.asarray(policy)
    if (
        table.shape == shape[:1]
        and table.dtype.kind in "iu"
        and table.size
        and 0 <= table.min() <= table.max() < shape[1]
    ):
        return one_hot(table, shape[1])
    if table.shape != shape or table.dtype.kind not in "iuf":
        limit = f"it must be (S, A) = {shape} probabilities, (S,) columns of actions, or map states to actions"
        raise MdpfnError("policy", shown(policy), limit, 'give one of these, or "logged"')
    probabilities = table.astype(np.float64)
    if (probabilities < 0).any() or not np.allclose(probabilities.sum(axis=1), 1, atol=1e-6):
        raise MdpfnError("policy", "a table", "its rows must be probabilities", "divide every row by its sum")
    return probabilities


def _named(policy: Mapping[Any, Any] | Callable[[Any], Any], plan: Plan) -> Floats:
    """(S, A) a mapping or a function as probabilities; where nothing is to be decided, it need not say anything."""
    assert plan.encoding is not None
    choose = policy.get if isinstance(policy, Mapping) else policy
    columns = np.zeros(len(plan.policy_logits), dtype=np.int64)
    for row, state in enumerate(plan.states):
        if plan.decides[row]:
            action = choose(state)
            if action is None:
                limit = f"it says nothing of {shown(state)}"
                kind = "a mapping" if isinstance(policy, Mapping) else "a function"
                raise MdpfnError("policy", kind, limit, "give an action for every state that episodes go on from")
            columns[row] = plan.encoding.actions.encode(action)
    return one_hot(columns, plan.policy_logits.shape[1])
