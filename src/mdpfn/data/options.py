"""The options about a log, as users give them and as they are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from numbers import Real
from typing import Any, Literal, TypeAlias, TypedDict, get_args

import numpy as np

from mdpfn.checks import check_choice, whole_number
from mdpfn.data.columns import Given
from mdpfn.errors import MdpfnError

EpisodeEnd: TypeAlias = Literal["terminal", "truncated"]
Missing: TypeAlias = Literal["raise", "drop"]
Bins: TypeAlias = int | Mapping[str, int | Sequence[float]]
Available: TypeAlias = Mapping[Any, Iterable[Any]] | Callable[[Any], Iterable[Any] | None]


class LogFields(TypedDict, total=False):
    """What `Agent.fit` and `partial_fit` take beside the options of `reset`; None counts as left out."""

    columns: Given | None
    episode_end: EpisodeEnd | None
    max_gap: float | timedelta | None
    missing: Missing | None
    bins: Bins | None
    terminal: Iterable[Any] | None
    available: Available | None


@dataclass(frozen=True)
class LogOptions:
    """Options about a log, checked when they are made."""

    columns: Given | None = None  # role -> column, where names do not tell
    episode_end: EpisodeEnd = "terminal"  # what it means that no row of an episode follows
    max_gap: float | timedelta | None = None  # a longer time between two rows of an episode breaks it
    missing: Missing = "raise"  # what to do with rows in which something is missing
    bins: Bins | None = None  # how many bins for columns of numbers that make states, or where they end
    terminal: Iterable[Any] | None = None  # states after which nothing follows
    available: Available | None = None  # state -> the actions that exist there

    def __post_init__(self) -> None:
        check_choice("episode_end", self.episode_end, get_args(EpisodeEnd))
        check_choice("missing", self.missing, get_args(Missing))
        gap = self.max_gap
        longer = gap is None or (
            gap > timedelta(0) if isinstance(gap, timedelta) else isinstance(gap, Real) and gap > 0
        )
        if not longer:
            limit = "it must be positive: a number, or a timedelta where times are dates"
            raise MdpfnError("max_gap", repr(gap), limit, "leave it out if rows of an episode may be far apart")
        if self.bins is not None:
            bins = self.bins
            by_name = {k: _checked_bins(n) for k, n in bins.items()} if isinstance(bins, Mapping) else None
            object.__setattr__(self, "bins", _checked_bins(bins) if by_name is None else by_name)
        if self.available is not None and not isinstance(self.available, Mapping) and not callable(self.available):
            limit = "it must map states to lists of actions, or be a function that does"
            raise MdpfnError("available", f"of type {type(self.available).__name__}", limit, "make a dict of it")
        if self.terminal is not None and (isinstance(self.terminal, str) or not isinstance(self.terminal, Iterable)):
            raise MdpfnError("terminal", repr(self.terminal), "it must be a list of states", "put it into brackets")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> tuple[LogOptions, dict[str, Any]]:
        """The options about the log among these, and the others."""
        mine = {name: value for name, value in given.items() if name in cls.__dataclass_fields__ and value is not None}
        return cls(**mine), {name: value for name, value in given.items() if name not in cls.__dataclass_fields__}


def _checked_bins(number: Any) -> Any:
    """The number of bins, or their edges."""
    if isinstance(number, Sequence | np.ndarray) and not isinstance(number, str):
        edges = np.asarray(number)
        if edges.dtype.kind not in "iuf" or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
            limit = "edges of bins are rising, finite numbers"
            raise MdpfnError("bins", repr(number), limit, "sort them, or give the number of bins")
        return number
    return whole_number("bins", number, low=2)
