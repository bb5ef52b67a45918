"""The columns of states, actions, rewards …: found as the user says or by their names; several may be joined to one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mdpfn.arrays import Ints
from mdpfn.errors import MdpfnError, shown

TRANSITION = ("state", "action", "reward", "next_state", "terminated", "truncated")  # in the order of tuples
REQUIRED = TRANSITION[:4]
FLAGS = ("terminated", "truncated")
ROLES = (*TRANSITION, "episode", "time", "count")
SEVERAL = ("state", "next_state", "time")  # roles that may be spread over several columns

NAMES = {
    "state": ("state", "states", "s", "obs", "observation", "observations"),
    "action": ("action", "actions", "a", "act"),
    "reward": ("reward", "rewards", "r", "rew"),
    "next_state": (
        "next_state", "next_states", "new_state", "s_next", "next_s", "s2", "s'", "sp",
        "next_obs", "next_observation", "next_observations", "new_obs", "obs_next",
    ),
    "terminated": ("terminated", "terminations", "terminal", "terminals", "is_terminal", "done", "dones"),
    "truncated": ("truncated", "truncations", "timeout", "timeouts"),
    "episode": ("episode", "episode_id", "trajectory", "trajectory_id", "session", "session_id"),
    "time": ("time", "timestamp", "t", "step", "date", "datetime"),
    "count": (),  # only where the user says so: many tables count something else
}  # fmt: skip
DONE = ("done", "dones")  # the old name for the end of an episode, whatever ended it

Given: TypeAlias = Mapping[str, str | Sequence[str]]
Columns: TypeAlias = dict[str, str | list[str]]
"""role -> the name of its column, or the names of several."""


@dataclass(frozen=True, eq=False)
class NamedColumn:
    """A column of names, stored as numbers and a list of the distinct names."""

    numbers: Ints  # (k,) the number of the name in each row; −1 where it is missing
    names: list[str]  # by number; more may come with later rows

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: Any) -> NamedColumn:
        """Some of the rows."""
        return NamedColumn(self.numbers[rows], self.names)

    def spelled_out(self) -> NDArray[Any]:
        """(k,) the name in each row, where none is missing."""
        return np.array(self.names, dtype=object)[self.numbers]


def as_observations(values: Any, columns: Mapping[str, str | list[str]] | None) -> Any:
    """A column or a frame of pandas or polars as a list of states, by the columns of the log; all else as it is."""
    if not (hasattr(values, "to_numpy") and hasattr(values, "columns")):
        return values.to_list() if hasattr(values, "to_list") else values
    names = listed((columns or {}).get("state", []))
    if not names or not set(names) <= set(values.columns):
        names = list(values.columns)
    parts = [values[name].to_list() for name in names]
    return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))


def find_columns(available: Iterable[str], given: Given | None) -> Columns:
    """role -> column name or names, for every role that has one; names given by the user go first.

    Without a next state, a log of episodes is meant: then rows need an episode or a time.
    """
    names = list(available)
    if given is not None and not isinstance(given, Mapping):
        limit = "they must be given as {role: name of a column}"
        raise MdpfnError("columns", shown(given), limit, "leave them out where the names tell")
    found: Columns = {role: _as_given(role, name, names) for role, name in (given or {}).items()}
    taken = {name for named in found.values() for name in listed(named)}
    if len(taken) < sum(len(listed(named)) for named in found.values()):
        limit = "no column can be two things"
        raise MdpfnError("columns", shown(dict(given or {})), limit, "name another column for one of them")
    for role in ROLES:
        usual = {_bare(name) for name in NAMES[role]}
        known = [name for name in names if _bare(name) in usual and name not in taken]
        if role in found or not known:
            continue
        if len(known) > 1 and (role not in ("episode", "time") or "next_state" not in found):
            limit = f"{' and '.join(map(repr, known))} could both be meant"
            raise MdpfnError("columns", f"ambiguous for {role}", limit, f"say which: columns={{'{role}': …}}")
        found[role] = known[0]
    if "next_state" in found:
        for role in {"episode", "time"} - set(given or {}):
            found.pop(role, None)  # every row tells by itself what followed it
    episodes = "episode" in found or "time" in found
    missing = [role for role in REQUIRED if role not in found and not (role == "next_state" and episodes)]
    if missing:
        limit = f"the data has {_told(names) or 'none'}"
        remedy = f"name what is missing: columns={{'{missing[0]}': …}}, or --columns {missing[0]}=… in a terminal"
        if missing == ["next_state"]:
            remedy += "; if the next row of the same episode holds it, name columns for episode and time"
        raise MdpfnError("columns", f"without {' and '.join(missing)}", limit, remedy)
    return {role: found[role] for role in ROLES if role in found}


def _told(names: Sequence[str]) -> str:
    """The column names as text; also shows a column without a name, as frames write their index."""
    return ", ".join(str(name) or "one without a name" for name in names)


def _as_given(role: str, name: str | Sequence[str], names: Sequence[str]) -> str | list[str]:
    if role not in ROLES:
        raise MdpfnError("columns", repr(role), f"the roles are {', '.join(ROLES)}", "use these as keys")
    if not isinstance(name, str | Sequence) or not all(isinstance(each, str) for each in name):
        limit = "a column is called by its name, which is text"
        raise MdpfnError("columns", f"{name!r} for {role}", limit, "give the name, or a list of names; rename the rest")
    several = not isinstance(name, str)
    if several and role not in SEVERAL:
        limit = f"only {', '.join(SEVERAL)} may be spread over several columns"
        raise MdpfnError("columns", f"{name!r} for {role}", limit, "name one column, or join them first")
    for each in listed(name) or [""]:
        if each not in names:
            limit = f"the data has {_told(names) or 'none'}"
            raise MdpfnError("columns", f"{each!r} for {role}", limit, "name a column that exists")
    return name if isinstance(name, str) else listed(name)


def listed(name: str | Sequence[str]) -> list[str]:
    """The columns of a role."""
    return [name] if isinstance(name, str) else list(name)


def _bare(name: object) -> str:
    """A name in lower case without spaces, hyphens and underscores, for comparison."""
    return "".join(letter for letter in str(name).lower() if letter.isalnum() or letter == "'")


def done_means_both(columns: Mapping[str, Any] | None) -> bool:
    """Whether the column of terminations is called "done" and so also marks truncations, which must be removed."""
    return columns is not None and "truncated" in columns and _bare(columns.get("terminated", "")) in DONE


def by_roles(columns: Columns, values_of: Callable[..., Any]) -> dict[str, Any]:
    """A piece, from the values of every column."""
    piece: dict[str, Any] = {}
    for role, named in columns.items():
        values = [values_of(name) for name in listed(named)]
        if role == "time":
            piece["times"] = values
        else:
            piece[role] = values[0] if isinstance(named, str) else joined(values)
    return piece


def joined(columns: Sequence[Any]) -> Any:
    """Several columns as one: (k, d) vectors if all hold numbers, some of them floats, else k tuples."""
    plain = [column if isinstance(column, NamedColumn) else np.asarray(column) for column in columns]
    arrays = [column for column in plain if isinstance(column, np.ndarray) and column.dtype.kind in "iuf"]
    if len(arrays) == len(columns) and any(array.dtype.kind == "f" for array in arrays):
        return np.column_stack(arrays).astype(np.float64)
    return list(zip(*map(_values, plain), strict=True))


def _values(column: Any) -> list[Any]:
    if isinstance(column, NamedColumn):
        names = [*column.names, None]  # the last one is number −1, which stands for a missing name
        return [names[number] for number in column.numbers.tolist()]
    values: list[Any] = column.tolist()
    return values
