"""What users may declare about a log: terminal states, and which actions exist."""

import json
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mdpfn.data.options import Available
from mdpfn.errors import MdpfnError
from mdpfn.evidence.statistics import Statistics
from mdpfn.spaces.codec import Codec
from mdpfn.spaces.encoding import SpaceEncoding


def declare_terminal(
    statistics: Statistics, states: Codec, terminal: Iterable[Any]
) -> tuple[Statistics, set[int], int]:
    """The statistics with every arrival in these states an end, their ids, and how many rows leave them.

    Such rows are left out: what a log writes down after the end is no decision.
    """
    ids = {_known(states, state, "terminal") for state in terminal}
    z = statistics.table()
    arrived, left = np.isin(z.successor, list(ids)), np.isin(z.state, list(ids))
    z = replace(z, n_terminated=np.where(arrived, z.transition_count, z.n_terminated))
    kept = statistics.of_pairs(z, ~left)
    kept.terminal |= ids
    return kept, ids, int(z.n_visits[left].sum())


def declare_available(statistics: Statistics, encoding: SpaceEncoding, available: Available) -> None:
    """Tell the statistics which actions exist where: by a table, or by a function of the state."""
    z, n_actions = statistics.table(), statistics.n_actions
    table = available if isinstance(available, Mapping) else _by_rule(available, encoding, statistics.n_states)
    visits = z.visits_table()
    masks = {}
    for name, actions in table.items():
        state = _known(encoding.states, name, "available")
        mask = np.zeros(n_actions, dtype=bool)
        mask[[_action(encoding.actions, action) for action in actions]] = True
        if not mask.any():
            limit = f"it lists no action for {name!r}"
            raise MdpfnError("available", "empty", limit, "list one at least, or declare the state terminal")
        taken = np.flatnonzero((visits[state] > 0) & ~mask)
        if len(taken):
            action = encoding.actions.decode(int(taken[0]))
            limit = f"the log takes {action!r} in {name!r} ({int(visits[state, taken[0]])} times)"
            raise MdpfnError("available", f"without {action!r} there", limit, "add it, or drop these rows")
        masks[state] = tuple(mask.tolist())
    for state, allowed in masks.items():
        statistics.allow(state, allowed)


def _by_rule(rule: Any, encoding: SpaceEncoding, n_states: int) -> dict[Any, Any]:
    """The table of a function; where it returns None, all actions exist."""
    names = map(encoding.states.decode, range(n_states))
    return {name: actions for name in names if (actions := rule(name)) is not None}


def check_available(statistics: Statistics, encoding: SpaceEncoding) -> None:
    """Refuse statistics in which an action was taken where it does not exist, as two logs together may say."""
    for pair in statistics.forbidden_visits()[:1]:
        state, action = divmod(pair, statistics.n_actions)
        name, taken = encoding.states.decode(state), encoding.actions.decode(action)
        limit = f"one log takes {taken!r} in {name!r}, where another says that it does not exist"
        raise MdpfnError("available", f"without {taken!r} there", limit, "add it, or drop these rows")


def _number(states: Codec, name: Any) -> int:
    """The id of a state, also as a file or a command line spells it: 3, or ["at risk", "gold"]; n if it has none."""
    try:
        number = states.find(name)
    except MdpfnError:
        number = states.n
    if number < states.n or not isinstance(name, str):
        return number
    try:
        value = json.loads(name)
        return states.find(tuple(value) if isinstance(value, list) else value)
    except (ValueError, MdpfnError):
        return states.n


def _known(states: Codec, name: Any, field: str) -> int:
    number = _number(states, name)
    if number >= states.n:
        limit = "the log has no such state"
        raise MdpfnError(field, reprlib.repr(name), limit, "spell it as the log does; several columns make a tuple")
    return number


def _action(actions: Codec, name: Any) -> int:
    try:
        return actions.encode(name)
    except MdpfnError:
        limit = "the log never takes such an action"
        remedy = "spell it as the log does, or list all that exist: action_space=[…]"
        raise MdpfnError("available", reprlib.repr(name), limit, remedy) from None
