"""Building statistics from pieces of a log, with ids for states and actions and the starts of episodes."""

import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints, sums_by
from mdpfn.checks import checked_flags, finite_floats
from mdpfn.data.columns import Columns, NamedColumn, done_means_both
from mdpfn.data.episodes import FINAL, outcomes
from mdpfn.data.ids import Ids, are_numbers, plain
from mdpfn.data.missing import missing_rows, taken
from mdpfn.data.options import LogOptions
from mdpfn.data.place import Place, first
from mdpfn.errors import MdpfnError, shown
from mdpfn.evidence.counts import LARGEST_REWARD
from mdpfn.evidence.statistics import Statistics
from mdpfn.evidence.sums import GOES_ON, TERMINATED, TRUNCATED, Rewards, TransitionSums, net_starts
from mdpfn.spaces.codec import is_missing
from mdpfn.spaces.encoding import SpaceEncoding
from mdpfn.weights.limits import Limits

SPARSE = 3  # times as many ids as states that appear: hardly what was meant
SHUFFLED = 0.25  # share of rows that do not go on where the last one ended, from which on order tells nothing
MOSTLY = 0.5  # share of rows at the same time as the next one, from which on time hardly orders them
FEW = 5  # names that a warning spells out
LARGEST_COUNT = 1e15  # so that sums of counts stay exact
ROUNDING = 1e-12  # of all counts: less is no start
INCOMPLETE = "rows left out because something is missing"
CUT_OFF = "rows left out because what followed was cut off"
TIES = "rows at the same time as the next one, taken in the order of the log"


class NeverLeftWarning(UserWarning):
    """Some states are never left, and nothing says that episodes end there."""


class DatasetReader:
    """Adds up pieces of a log: sums of transitions, ids of states and actions, starts of episodes."""

    def __init__(
        self, columns: Columns | None, observation_space: Any, action_space: Any, limits: Limits, log: LogOptions
    ) -> None:
        self.columns, self.limits, self.log = columns, limits, log
        self.states = Ids(observation_space, "state", limits.states)
        self.actions = Ids(action_space, "action", limits.actions)
        self.sums = TransitionSums()
        self.start_states: Counter[int] = Counter()
        self.notes: Counter[str] = Counter()  # what was left out or assumed -> in how many rows
        self._last: tuple[int, bool] | None = None  # where the last row ended, and whether its episode did
        self._first: int | None = None  # the state of the first row
        self._n_rows, self._n_breaks = 0, 0
        self._starts_by_flow = False

    def add(self, piece: Mapping[str, Any]) -> None:
        """Add the transitions of a piece; anything wrong with them is refused."""
        place = piece.get("place", Place())
        if piece.get("ties"):
            self.notes[TIES] += checked_ties(piece, self.columns)
        terminated, truncated, alone = ends_of(piece, len(piece["action"]), self.columns, self.log)
        rewards, no_reward = _rewards(piece)
        next_state = with_ends(piece["next_state"], piece["state"], terminated, alone)
        wanted, unknown = self._wanted(piece, next_state, no_reward, terminated, alone)
        self._n_rows += len(wanted)
        state, action = taken(piece["state"], wanted), taken(piece["action"], wanted)
        next_state, kept = taken(next_state, wanted), rewards[wanted]
        _check_rewards(piece, rewards, no_reward, place)
        end = np.where(terminated, TERMINATED, np.where(truncated | unknown, TRUNCATED, GOES_ON))[wanted]
        if len(end) == 0:
            return
        if self.states.space is None and are_numbers(state) != are_numbers(next_state):
            types = f"of type {_type(next_state)} where state is of type {_type(state)}"
            limit = "both must be numbers or both names, or they would never be the same"
            raise MdpfnError("next_state", types, limit, "convert one of them")
        ids = [
            self._ids(numbers, values, role, piece, place)
            for numbers, values, role in (
                (self.states, state, "state"),
                (self.actions, action, "action"),
                (self.states, next_state, "next_state"),
            )
        ]
        self.limits.check_sizes(max(self.states.n, 1), max(self.actions.n, 1))
        positive = kept.count > 0
        self.sums.add(np.stack([*ids, end])[:, positive], kept[positive])
        self._note_starts(piece, ids[0], ids[2], end, wanted)

    def statistics(self) -> Statistics:
        """The statistics of all transitions that were added."""
        if self.sums.low > self.sums.high:
            raise MdpfnError("transitions", "empty", "there must be at least one", "check where they come from")
        statistics = self.sums.statistics(self._n_states, max(self.actions.n, 1))
        self._warn_of_gaps(statistics)
        return statistics

    def encoding(self) -> SpaceEncoding:
        """The encoding of the states and actions that appeared."""
        (observation_space, states), (action_space, actions) = self.states.finished(), self.actions.finished()
        return SpaceEncoding(observation_space, action_space, states, actions)

    def starts(self) -> Counter[int] | None:
        """In how many episodes each state was the first; None where the data does not tell."""
        found = self.start_states
        if self._starts_by_flow:
            (state, _, next_state, end), count = self.sums.table
            flow = net_starts(state, next_state, end, count, self._n_states)
            started = np.flatnonzero(flow > ROUNDING * count.sum())
            unit = min(1.0, float(flow[started].min(initial=1.0)))  # weights may be less than 1
            found = Counter({int(i): round(flow[i] / unit) for i in started})
            found = found or Counter([] if self._first is None else [self._first])
            return found or None
        known = self._n_breaks <= SHUFFLED * self._n_rows
        return Counter(dict(sorted(found.items()))) if known else None

    def warn_of_never_left(self, declared: set[int]) -> None:
        """Warn of states that are reached without an end of the episode, but never left."""
        if self.columns is not None and "next_state" not in self.columns:
            return  # every next state is a row of its own
        (state, _, next_state, end), count = self.sums.table
        n = self._n_states
        goes_on = end == GOES_ON
        arrivals = sums_by(next_state[goes_on], count[goes_on], n)
        arrivals[state] = 0
        arrivals[list(declared)] = 0
        never_left = np.flatnonzero(arrivals)
        if arrivals.sum() < 2:  # the last row of a log that goes on leads somewhere
            return
        codec = self.states.finished()[1]
        names = [codec.decode(i) for i in never_left[: FEW + 1].tolist()]
        some = ", ".join(map(repr, names[:FEW])) + (", …" if len(names) > FEW else "")
        text = (
            f"{some} {'are' if len(never_left) > 1 else 'is'} never left, and nothing says that episodes end there, so "
            f"what follows counts as unknown: if they end, declare it with terminal={names[:FEW]!r}"
        )
        warnings.warn(text, NeverLeftWarning, stacklevel=4)

    @property
    def _n_states(self) -> int:
        return max(self.states.n, 1)

    def _warn_of_gaps(self, statistics: Statistics) -> None:
        """Warn where whole numbers are ids and most of their range never appears."""
        z = statistics.table()
        for what, ids, n, seen in (
            ("states", self.states, int(z.n_states[0]), np.union1d(z.state, z.successor)),
            ("actions", self.actions, int(z.n_actions[0]), np.unique(z.action)),
        ):
            if ids.codec is None and n > SPARSE * len(seen):
                space = "observation_space" if what == "states" else "action_space"
                text = (
                    f"{what} run from 0 to {n - 1}, but only {len(seen)} of them appear, and the others count as "
                    f"unknown: make them text, which is taken for names, or list them: {space}=[…]"
                )
                warnings.warn(text, UserWarning, stacklevel=4)
            elif what == "actions" and ids.codec is None and seen[0] > 0 and len(seen) == n - seen[0] > 1:
                text = (
                    f"the smallest action is {seen[0]}, and those below it count as actions that nobody took: if there "
                    f"are none, list those that exist: action_space=list(range({seen[0]}, {n}))"
                )
                warnings.warn(text, UserWarning, stacklevel=4)

    def _wanted(
        self, piece: Mapping[str, Any], next_state: Any, no_reward: Bools, terminated: Bools, alone: Bools
    ) -> tuple[Ints, Bools]:
        """The rows that are transitions, and which of all rows have an outcome that is not known."""
        lacks = {role: missing_rows(piece[role]) for role in ("state", "action")} | {"reward": no_reward}
        cut_off = alone & ~terminated
        blank = lacks["state"] & lacks["action"] & lacks["reward"]
        if "kind" in piece:
            blank |= piece["kind"] == FINAL
            lacks |= {"episode": piece["no_episode"], "time": piece["no_time"]}
        else:
            lacks["next_state"] = missing_rows(next_state)
        incomplete = np.any(list(lacks.values()), axis=0) & ~blank
        if "kind" in piece:
            broken = missing_rows(next_state) & ~cut_off & ~incomplete & ~blank
            lacks["next_state"], incomplete = broken, incomplete | broken
        groups = piece["rewards"].count if "rewards" in piece else np.ones(len(blank))
        if incomplete.any() and self.log.missing == "raise":
            raise missing_value(piece, lacks, incomplete)
        self.notes[INCOMPLETE] += int(groups[incomplete].sum())
        self.notes[CUT_OFF] += int(groups[cut_off & ~incomplete & ~blank].sum())
        return np.flatnonzero(~incomplete & ~blank & ~cut_off), cut_off

    def _ids(self, numbers: Ids, values: Any, role: str, piece: Mapping[str, Any], place: Place) -> Ints:
        try:
            return numbers(values)
        except MdpfnError as error:
            if "rewards" in piece or not place.columns or not isinstance(error.value, str):
                raise
            found = numbers.first_refused(values)
            raise error if found is None else place.located(error, found, role) from None

    def _note_starts(self, piece: Mapping[str, Any], state: Ints, next_state: Ints, end: Ints, wanted: Ints) -> None:
        """Count starts as the log gives them; else after the end of an episode and where a row does not continue."""
        if "starts" in piece:
            starts = sums_by(state, piece["starts"][wanted], self._n_states)
            self.start_states.update({int(i): int(starts[i]) for i in np.flatnonzero(starts)})
            return
        if "rewards" in piece or "count" in piece:  # rows may stand for several, and their order tells nothing
            self._starts_by_flow = True
            if piece.get("ordered", True) and self._first is None:
                self._first = int(state[0])
            return
        before, over = self._last or (-1, True)
        ended = end != GOES_ON
        was_over = np.concatenate([[over], ended[:-1]])
        goes_on = state == np.concatenate([[before], next_state[:-1]])
        breaks = ~was_over & ~goes_on
        self._n_breaks += int(breaks.sum())
        starts, count = np.unique(state[was_over | breaks], return_counts=True)
        self.start_states.update(dict(zip(starts.tolist(), count.tolist(), strict=True)))
        self._last = int(next_state[-1]), bool(ended[-1])


def checked_ties(piece: Mapping[str, Any], columns: Columns | None) -> int:
    """How many rows have the same time as the next one: refused where rows have no order, warned of where most have."""
    ties: int = piece["ties"]
    if ties and not piece.get("ordered", True):
        limit = f"{ties} rows have the same time as the next one of their episode"
        remedy = "name more columns that order them: columns={'time': [first, second]}"
        raise MdpfnError("time", "ambiguous", limit, remedy)
    n_rows = piece["rewards"].count.sum() if "rewards" in piece else len(piece["action"])
    if ties > MOSTLY * n_rows and columns is not None and "episode" not in columns:
        text = (
            f"{ties} of {n_rows:.0f} rows have the same time as the next one, and no column says of which "
            "episode they are: if time starts again in every episode, name it: columns={'episode': …}"
        )
        warnings.warn(text, UserWarning, stacklevel=6)
    return ties


def _rewards(piece: Mapping[str, Any]) -> tuple[Rewards, Bools]:
    """The sums of a piece, and which rows have no reward."""
    if "rewards" in piece:
        _check_counts(piece, piece["rewards"].count)
        return piece["rewards"], piece["no_reward"]
    reward = floats_of(piece, "reward")
    count = floats_of(piece, "count") if "count" in piece else np.ones(len(reward))
    _check_counts(piece, count)
    missing = np.isnan(reward) | np.isnan(count)
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large is refused later
        return Rewards.of_rows(np.where(missing, 0.0, reward), np.where(missing, 1.0, count)), missing


def _check_counts(piece: Mapping[str, Any], count: Floats) -> None:
    """Refuse counts that are too large to add up."""
    large = count > LARGEST_COUNT
    if large.any():
        row = first(large)
        limit = f"it must be a finite number, at most {LARGEST_COUNT:g}"
        error = MdpfnError("count", repr(float(count[row])), limit, "repair or drop that row")
        raise error if "rewards" in piece else piece.get("place", Place()).located(error, row, "count")


def floats_of(piece: Mapping[str, Any], role: str) -> Floats:
    """A column of numbers, with NaN where one is missing; text that is no number is refused, with its row."""
    values = plain(piece[role])
    if isinstance(values, np.ndarray) and values.dtype == object:
        values = [np.nan if is_missing(value) else value for value in values.tolist()]
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        values = values.tolist() if isinstance(values, np.ndarray) else values
        row = first([not _is_number(value) for value in values])
        error = MdpfnError(role, shown(values[row]), "it must be a number", "repair or drop that row")
        raise piece.get("place", Place()).located(error, row, role) from None
    return array.reshape(-1) if array.ndim == 1 or array.size == len(array) else finite_floats(role, "a matrix")


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _check_rewards(piece: Mapping[str, Any], rewards: Rewards, no_reward: Bools, place: Place) -> None:
    """Refuse rewards that are too large to add up, and counts below 0."""
    large = ~((rewards.low >= -LARGEST_REWARD) & (rewards.high <= LARGEST_REWARD)) & ~no_reward
    if large.any():
        row = first(large)
        value = max(float(rewards.low[row]), float(rewards.high[row]), key=abs)
        limit = f"it must be a finite number, at most {LARGEST_REWARD:g} in size"
        error = MdpfnError("reward", repr(value), limit, "drop, repair or rescale it")
        raise error if "rewards" in piece else place.located(error, row, "reward")
    negative = piece.get("least", rewards.count) < 0
    if negative.any():
        row = first(negative)
        value = piece.get("least", rewards.count)[row]
        error = MdpfnError("count", repr(float(value)), "a count is not negative", "repair or drop that row")
        raise error if "rewards" in piece else place.located(error, row, "count")


def missing_value(piece: Mapping[str, Any], lacks: Mapping[str, Bools], incomplete: Bools) -> MdpfnError:
    """The error for the first row in which something is missing; `lacks` says by role in which rows it is."""
    remedy = "repair or drop that row, or leave such rows out with missing='drop'"
    inherited = "kind" in piece  # the next state, from the row that follows
    by_itself = np.any([mask for role, mask in lacks.items() if not (inherited and role == "next_state")], axis=0)
    if "rewards" in piece:
        rows = incomplete & by_itself if (incomplete & by_itself).any() else incomplete
        role = _role_of({}, lacks, first(rows), inherited=inherited)
        n_rows = int(piece["rewards"].count[rows].sum())
        return MdpfnError(role, f"empty in {n_rows} row{'s' * (n_rows > 1)} or less", "every row needs one", remedy)
    row = first(incomplete)
    role = _role_of(piece, lacks, row, inherited=inherited)
    error = MdpfnError(role, "empty", "every row needs one", remedy)
    place = piece.get("place", Place())
    return place.located(error, row if by_itself[row] else row + 1, role)  # type: ignore[no-any-return]


def _role_of(piece: Mapping[str, Any], lacks: Mapping[str, Bools], row: int, *, inherited: bool) -> str:
    """What is missing in a row, by the name of the column that lacks it."""
    role = next((role for role, mask in lacks.items() if mask[row]), "state")
    if role == "reward" and "count" in piece and not missing_rows(plain(piece["reward"]))[row]:
        return "count"
    return "state" if inherited and role == "next_state" else role


def with_ends(next_states: Any, states: Any, terminated: Bools, alone: Bools) -> Any:
    """Next states; where a terminated row has none, the state itself takes its place.

    Statistics count terminations per transition, so this is not confused with a transition that stays.
    """
    if isinstance(next_states, NamedColumn):
        over = terminated & ((next_states.numbers < 0) | alone)
        return NamedColumn(np.where(over, states.numbers, next_states.numbers), next_states.names)
    if not isinstance(next_states, np.ndarray | list) or not terminated.any():
        return next_states
    ends = np.flatnonzero(terminated & (missing_rows(next_states) | alone))
    if len(ends) == 0:
        return next_states
    if isinstance(next_states, list):
        filled = list(next_states)
        for row in ends.tolist():
            filled[row] = states[row]
        return filled
    if next_states.dtype.kind not in "fO" and not alone.any():
        return next_states
    array = next_states.copy()
    array[ends] = np.asarray(states)[ends]
    return array


def _type(values: Any) -> str:
    return str(getattr(values, "dtype", type(values).__name__))


def ends_of(
    piece: Mapping[str, Any], n: int, columns: Mapping[str, Any] | None, log: LogOptions
) -> tuple[Bools, Bools, Bools]:
    """Which of n rows terminated, which were truncated, and which have no next state that counts."""
    terminated, truncated = _flags(piece, "terminated", n), _flags(piece, "truncated", n)
    if done_means_both(columns):
        terminated = terminated & ~truncated
    if "kind" not in piece:
        return terminated, truncated, np.zeros(n, dtype=bool)
    return outcomes(piece["kind"], terminated, truncated, "terminated" in piece, log.episode_end)


def _flags(piece: Mapping[str, Any], role: str, n: int) -> Bools:
    """(n,) truth values; False where the data has no such column."""
    if role not in piece:
        return np.zeros(n, dtype=bool)
    array, limit = plain(piece[role]), "it must be true or false for every transition"
    if not isinstance(array, np.ndarray) or array.size != n:
        raise MdpfnError(role, "something else", limit, "correct it")
    wrong = [is_missing(flag) or flag not in (0, 1) for flag in array.reshape(-1).tolist()]
    if any(wrong) and array.dtype.kind in "Of":
        row = first(wrong)
        error = MdpfnError(role, shown(array.reshape(-1)[row]), limit, "repair or drop that row")
        raise error if "rewards" in piece else piece.get("place", Place()).located(error, row, role)
    return checked_flags(role, np.array(array.tolist()) if array.dtype == object else array)
