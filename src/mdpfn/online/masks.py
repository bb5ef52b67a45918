"""The action masks of the observations seen last, for those who act by observations and not by ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdpfn.evidence import State

MOST = 256  # of vectors there is no end; environments side by side may share an observation


class RecentMasks:
    """Action masks by state, those that were noted last."""

    def __init__(self) -> None:
        self._of: dict[Any, tuple[bool, ...]] = {}

    def note(self, state: State, mask: tuple[bool, ...]) -> None:
        """Only these actions exist in a state."""
        key = _key(state)
        self._of.pop(key, None)
        self._of[key] = mask
        if len(self._of) > MOST:
            del self._of[next(iter(self._of))]

    def of(self, state: State) -> tuple[bool, ...] | None:
        """The mask of a state, if one was noted lately."""
        return self._of.get(_key(state))


def _key(state: State) -> Any:
    return state.tobytes() if isinstance(state, np.ndarray) else state
