"""Logs of episodes, in which the next state is the next row of the same episode.

These rules hold for every source (`frames.py` states the same as a query):

- rows are ordered by time, and where times are equal by their place in the log, if it has an order;
- the last row of an episode ended it: a terminal transition, or, if the log was cut off there, one whose outcome is
  not known and which is left out;
- a last row without an action is no decision, but the state in which the episode ended;
- a gap in time of more than `max_gap` breaks an episode: what followed the row before it is not known;
- a flag for terminations, where the log has one, says which episodes really ended;
- after a row that terminated or was truncated another episode starts, even if the log has one id for all of them;
- where the time of a row is missing, so is its place in its episode, and with it what followed what there.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from numbers import Number
from typing import Any

import numpy as np

from mdpfn.arrays import Bools, Ints
from mdpfn.data.columns import FLAGS, Columns, NamedColumn, done_means_both
from mdpfn.data.missing import missing_rows, taken
from mdpfn.data.options import EpisodeEnd, LogOptions
from mdpfn.data.place import Place, first
from mdpfn.errors import MdpfnError

ISO_TIME = "^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]+)?)?Z?)?$"
NO_FORM = "?"  # of a time that does not sort as text
GOES_ON, LAST, BEFORE_FINAL, GAP, FINAL = range(5)  # what a row of an episode is


def outcomes(
    kind: Ints, terminated: Bools, truncated: Bools, flagged: bool, episode_end: EpisodeEnd
) -> tuple[Bools, Bools, Bools]:
    """Whether rows of these kinds terminated, whether they were truncated, and whether they lack a next row.

    A row without a next row that did not terminate has no known outcome.
    """
    ends = (kind == LAST) | (kind == BEFORE_FINAL)
    if not flagged and episode_end == "terminal":
        terminated = terminated | (ends & ~truncated)
    alone = terminated & (kind != BEFORE_FINAL) | (kind == LAST) | (kind == GAP)
    return terminated, (truncated | ends) & ~terminated, alone


def in_episodes(rows: Mapping[str, Any], columns: Columns, log: LogOptions) -> dict[str, Any]:
    """Rows of a log in the order of their episodes, each with its next state, its kind, and whether it starts one."""
    n = len(rows["action"])
    episode = _codes(rows["episode"]) if "episode" in rows else np.zeros(n, dtype=np.int64)
    nothing = np.zeros(n, dtype=bool)
    no_episode = missing_rows(rows["episode"]) if "episode" in rows else nothing
    no_time = np.any([nothing, *map(missing_rows, rows.get("times", ()))], axis=0)
    times = [_sortable(time, rows.get("place", Place())) for time in rows.get("times", ())]
    if log.missing == "drop":
        no_time = np.isin(episode, episode[no_time])
    order = np.lexsort([*reversed(times), episode])  # stable: what comes at the same time stays as it was
    episode, times = episode[order], [time[order] for time in times]
    over, cut = (truth(rows[role], n)[order] if role in rows else nothing for role in FLAGS)
    if done_means_both(columns):
        over = over & ~cut
    same = episode[1:] == episode[:-1]
    tied = same & np.all([time[1:] == time[:-1] for time in times], axis=0) if times else np.zeros(max(n - 1, 0), bool)
    following = np.minimum(np.arange(n) + 1, max(n - 1, 0))
    last = np.append(~same, True)[:n]
    no_action = missing_rows(taken(rows["action"], order))
    final = last & no_action
    kind = np.where(last, LAST, np.where(cut & ~over, GAP, GOES_ON))
    kind[:-1][final[1:] & same] = BEFORE_FINAL
    starts = np.append(True, ~same | (over | cut)[:-1])[:n]
    if log.max_gap is not None and times:
        gap = same & (_steps(times[0]) > _gap(log.max_gap, times[0]))
        kind[:-1][gap], starts[1:] = GAP, starts[1:] | gap
    kind[final] = FINAL
    moved = {role: taken(values, order) for role, values in rows.items() if role not in ("times", "place")}
    moved["next_state"] = taken(moved["state"], following)
    moved |= {"no_episode": no_episode[order], "no_time": no_time[order]}
    moved |= {"kind": kind, "starts": (starts & (kind != FINAL)).astype(np.float64), "ties": int(tied.sum())}
    return moved | ({"place": rows["place"].reordered(order)} if "place" in rows else {})


def truth(flags: Any, n: int) -> Bools:
    """(n,) whether flags are set; what is no flag is refused later, with its row."""
    array = np.asarray(flags)
    if array.shape != (n,):
        return np.zeros(n, dtype=bool)
    return np.asarray(array.astype(bool) if array.dtype.kind in "biu" else array == 1)


def _codes(values: Any) -> Ints:
    if isinstance(values, NamedColumn):
        return values.numbers.astype(np.int64)
    array = np.asarray(values)
    if array.ndim != 1:
        raise MdpfnError("episode", "of several columns", "an episode has one id", "join the columns to one")
    codes: Ints = np.unique(array.astype(str) if array.dtype == object else array, return_inverse=True)[1]
    return np.where(missing_rows(array), -1, codes.reshape(-1))


def _sortable(values: Any, place: Place) -> Any:
    """Times as an array that sorts: numbers, dates, or text such as 2026-01-31 12:00; other text is refused."""
    if isinstance(values, NamedColumn):
        return _sortable_text([*values.names, ""], values.numbers, values.numbers < 0, place)
    array = np.asarray(values)
    missing = missing_rows(array)
    if array.dtype == object and all(isinstance(value, Number) for value in array[~missing]):
        return np.where(missing, np.nan, array).astype(np.float64)
    if array.dtype == object and not any(isinstance(value, str) for value in array):
        try:
            return np.array(array.tolist(), dtype="datetime64[us]")
        except (TypeError, ValueError):
            pass
    if array.dtype.kind not in "OU":
        return array
    text = ["" if lacks else str(value) for value, lacks in zip(array.tolist(), missing, strict=True)]
    return _sortable_text(text, np.arange(len(text)), missing, place)


def _sortable_text(names: Sequence[str], numbers: Ints, missing: Bools, place: Place) -> Any:
    """The times with these numbers as text, which is refused where it does not sort."""
    form = np.array([form_of(name) for name in names])[numbers]
    wrong = ~missing & (form == NO_FORM)
    known = first(~missing)
    other = "" if wrong.any() else names[numbers[known]] if len(form) else ""
    if other:
        wrong = ~missing & (form != form[known])
    if wrong.any():
        row = first(wrong)
        raise place.located(not_sortable(names[numbers[row]], other), row, "time")
    return np.array(names)[numbers]


def form_of(text: str) -> str:
    """How a time is written: its text with zeros for digits.

    Only times that are written alike sort as text, but a fraction of a second may be of any length unless a Z follows.
    """
    return sortable_form(re.sub("[0-9]", "0", text)) if re.fullmatch(ISO_TIME, text) else NO_FORM


def sortable_form(zeros: str) -> str:
    """The form of a time, from its text with zeros for digits."""
    return re.sub("[.]0+$", "", zeros)


def not_sortable(value: str, other: str = "") -> MdpfnError:
    """The error for a time as text that does not sort, by itself or beside another one."""
    limit = f"another is {other!r}" if other else "it has not the fixed width of a date that sorts as text"
    remedy = "make them datetimes, or write them like 2026-01-31 08:05:00"
    return MdpfnError("time", repr(value[:40]), limit, remedy)


def _steps(time: Any) -> Any:
    """(n − 1,) how far times are apart."""
    if time.dtype.kind != "U":
        return np.diff(time)
    return np.diff(np.char.rstrip(time, "Zz").astype("datetime64[us]"))  # NumPy knows no zones: UTC is meant anyway


def check_gap(gap: Any, *, dates: bool) -> None:
    """Refuse a gap that is a number where times are dates or durations, or the other way round."""
    if dates != isinstance(gap, timedelta | np.timedelta64):
        limit = f"times are {'dates' if dates else 'numbers'}"
        raise MdpfnError("max_gap", repr(gap), limit, "give a datetime.timedelta" if dates else "give a number")


def _gap(gap: Any, time: Any) -> Any:
    dates = time.dtype.kind in "UMm"
    check_gap(gap, dates=dates)
    return np.timedelta64(gap) if dates else gap
