"""Which column of a table holds the states, the actions, the rewards …: as the user says, or as their names tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mdpfn.arrays import Ints
from mdpfn.errors import MdpfnError, shown

REQUIRED = ("state", "action", "reward", "next_state")
OPTIONAL = ("terminated", "truncated")
ROLES = REQUIRED + OPTIONAL

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
}  # fmt: skip
DONE = ("done", "dones")  # the old name for the end of an episode, whatever ended it


@dataclass(frozen=True, eq=False)
class NamedColumn:
    """A column of names, of which each is spelled out once."""

    numbers: Ints  # (k,) the number of the name in each row; −1 where it is missing
    names: list[str]  # by number; more may come with later rows


def find_columns(available: Iterable[str], given: Mapping[str, str] | None) -> dict[str, str]:
    """role -> column name, for every role that has a column; names given by the user go first."""
    names = list(available)
    if given is not None and not isinstance(given, Mapping):
        limit = "they must be given as {role: name of a column}"
        raise MdpfnError("columns", shown(given), limit, "leave them out where the names tell")
    found = dict(given or {})
    for role, name in found.items():
        if role not in ROLES:
            raise MdpfnError("columns", repr(role), f"the roles are {', '.join(ROLES)}", "use these as keys")
        if name not in names:
            limit = f"the data has {', '.join(map(str, names))}"
            raise MdpfnError("columns", f"{name!r} for {role}", limit, "name a column that exists")
    taken = set(found.values())
    for role in ROLES:
        usual = {_bare(name) for name in NAMES[role]}
        known = [name for name in names if _bare(name) in usual and name not in taken]
        if role in found or not known:
            continue
        if len(known) > 1:
            limit = f"{' and '.join(map(repr, known))} could both be meant"
            raise MdpfnError("columns", f"ambiguous for {role}", limit, f"say which: columns={{'{role}': …}}")
        found[role] = known[0]
    missing = [role for role in REQUIRED if role not in found]
    if missing:
        limit = f"the data has {', '.join(map(str, names)) or 'none'}"
        remedy = f"name what is missing: columns={{'{missing[0]}': …}}, or --columns {missing[0]}=… in a terminal"
        raise MdpfnError("columns", f"without {' and '.join(missing)}", limit, remedy)
    return {role: found[role] for role in ROLES if role in found}


def _bare(name: object) -> str:
    """A name without what people spell differently: capitals, spaces, hyphens, underscores."""
    return "".join(letter for letter in str(name).lower() if letter.isalnum() or letter == "'")


def done_means_both(columns: Mapping[str, str]) -> bool:
    """Whether the column of terminations also marks truncations, so that those have to be taken out of it."""
    return "truncated" in columns and _bare(columns.get("terminated", "")) in DONE
