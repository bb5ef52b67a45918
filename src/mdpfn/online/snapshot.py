"""Snapshots of objects, to roll back a change that was interrupted.

An interrupt may arrive between any two instructions. Code that changes more than one object takes a snapshot first
and restores it when anything is raised, so that explorer, history and evidence always belong together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import is_dataclass
from typing import Any

import numpy as np

PACKAGE = __name__.partition(".")[0]
IMMUTABLE = {int, float, str, tuple, bool, bytes, type(None), np.ndarray}


class Snapshot:
    """The content of some objects of this package, and of the lists and dictionaries in them.

    Immutable values are not copied, nor are arrays, which this package replaces and never writes to. Of random
    generators the state is kept.
    """

    def __init__(self, *objects: Any) -> None:
        self._held: dict[int, tuple[Any, Any]] = {}
        for one in objects:
            self._note(one)

    def restore(self) -> None:
        """Give every object the content it had."""
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
