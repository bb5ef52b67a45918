"""All or nothing: what objects held before a change, to be put back if the change does not come to its end.

An interrupt may arrive between any two instructions. Whoever changes more than one thing notes what was before, and
puts it back when anything is raised; so explorer, history and evidence are always of the same moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import is_dataclass
from typing import Any

import numpy as np

PACKAGE = __name__.partition(".")[0]
IMMUTABLE = {int, float, str, tuple, bool, bytes, type(None), np.ndarray}


class Snapshot:
    """What objects of this package and the lists and dictionaries in them held.

    What is immutable, and arrays, which are replaced and not written to, are kept as they are. Generators are put
    back to where they were.
    """

    def __init__(self, *objects: Any) -> None:
        self._held: dict[int, tuple[Any, Any]] = {}
        for one in objects:
            self._note(one)

    def restore(self) -> None:
        """Put everything back."""
        for one, held in self._held.values():
            if isinstance(one, np.random.Generator):
                one.bit_generator.state = held
            elif isinstance(one, list):
                one[:] = held
            else:
                target = one if isinstance(one, dict) else vars(one)
                dict.update(target, held)  # that of a Counter would add
                for more in target.keys() - held.keys():
                    del target[more]

    def _note(self, one: Any) -> None:
        if id(one) in self._held:
            return
        if isinstance(one, np.random.Generator):
            self._held[id(one)] = one, one.bit_generator.state
        elif isinstance(one, list | dict):
            self._held[id(one)] = one, one.copy()
            parts = one.values() if isinstance(one, dict) else one
            if not IMMUTABLE.issuperset(map(type, parts)):  # most are, and there may be one for every state
                self._note_all(parts)
        elif type(one).__module__.startswith(PACKAGE) and hasattr(one, "__dict__") and not _is_frozen(one):
            self._held[id(one)] = one, dict(vars(one))
            self._note_all(vars(one).values())

    def _note_all(self, parts: Iterable[Any]) -> None:
        for part in parts:
            if type(part) not in IMMUTABLE:
                self._note(part)


def _is_frozen(one: Any) -> bool:
    return is_dataclass(one) and bool(vars(type(one))["__dataclass_params__"].frozen)
