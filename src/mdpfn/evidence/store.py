"""Statistics as named arrays, and on disk."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdpfn.errors import MdpfnError
from mdpfn.evidence.counts import LARGEST_REWARD, Rests
from mdpfn.evidence.statistics import NOTHING, Statistics
from mdpfn.evidence.table import PairTable
from mdpfn.storage import read_bundle, write_bundle

FORMATS = (1, 2)  # 1: without sums of squares, durations and masks
TERMINAL = "terminal"
MOST_TRANSITIONS = 2.0**53  # beyond, one more does not count


def save_statistics(statistics: Statistics, path: Path) -> None:
    """Write statistics to a file of their own."""
    write_bundle(path, statistics_to_arrays(statistics), {"kind": "statistics", "format": FORMATS[-1]})


def load_statistics(path: Path) -> Statistics:
    """Statistics from a file of their own."""
    arrays, description = read_bundle(path)
    if description.get("kind") != "statistics" or description.get("format") not in FORMATS:
        limit = f"it must hold statistics of format {' or '.join(map(str, FORMATS))}"
        raise MdpfnError("the file", repr(str(path)), limit, "match the versions")
    return statistics_from_arrays(arrays)


def statistics_to_arrays(statistics: Statistics) -> dict[str, NDArray[Any]]:
    """Everything observed; rows keep their order, so that plans after loading are the same to the last bit."""
    z = statistics.table()
    arrays = {field.name: getattr(z, field.name) for field in fields(PairTable)}
    arrays[TERMINAL] = np.array(sorted(statistics.terminal), dtype=np.int64)
    arrays["reward_range"] = np.array([statistics.reward_min, statistics.reward_max])
    visited = set(z.pair.tolist())
    rests = [
        (pair, which, part)
        for pair, sums in sorted(statistics.rests.items())
        for which, parts in enumerate(sums)
        for part in parts
        if pair in visited
    ]
    if rests:
        pair, which, part = zip(*rests, strict=True)
        arrays |= {"rest_pair": np.array(pair), "rest_of": np.array(which), "rest": np.array(part)}
    return arrays


def _rests(arrays: Mapping[str, NDArray[Any]]) -> Rests:
    """The rounding errors of the sums of rewards, by pair."""
    rests: Rests = {}
    columns = (arrays[name].tolist() for name in ("rest_pair", "rest_of", "rest"))
    for pair, which, part in zip(*columns, strict=True):
        sums = rests.get(pair, NOTHING)
        rests[pair] = (sums[0], (*sums[1], float(part))) if which else ((*sums[0], float(part)), sums[1])
    return rests


def statistics_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Statistics:
    """The inverse of `statistics_to_arrays`, with every array checked."""
    try:
        held: dict[str, Any] = dict(arrays)
        if "reward_square_sum" not in held:
            with np.errstate(all="ignore"):  # what is not finite is refused below
                held["reward_square_sum"] = held["reward_sum"] ** 2 / held["n_visits"]
        held = {"duration": np.ones(len(held["pair"]))} | held
        none: Any = np.zeros(0, dtype=np.int64)
        held = {"forbidden": none, "forbidden_mdp": none} | held
        table = PairTable(**{field.name: held[field.name] for field in fields(PairTable)})
        _check(table, held[TERMINAL], held["reward_range"])
        statistics = Statistics.from_table(table, held[TERMINAL].tolist(), *held["reward_range"].tolist())
        if "rest" in held:
            if not (np.isfinite(held["rest"]).all() and np.isin(held["rest_pair"], table.pair).all()):
                raise ValueError("parts of sums are finite and belong to pairs")
            statistics.rests = _rests(held)
        return statistics
    except (KeyError, TypeError, ValueError, IndexError) as error:
        limit = f"its arrays must be those of a table of pairs ({type(error).__name__}: {error})"
        raise MdpfnError("the statistics", "not whole", limit, "use another copy") from None


def _check(z: PairTable, terminal: NDArray[Any], reward_range: NDArray[Any]) -> None:
    """Refuse arrays that do not fit together: ids out of range, lengths that differ, counts that are not positive."""
    arrays = {field.name: getattr(z, field.name) for field in fields(PairTable)} | {TERMINAL: terminal}
    ints = ("n_states", "n_actions", "pair_mdp", "pair", "n_successors", "successor", "forbidden", TERMINAL)
    if any(array.ndim != 1 for array in arrays.values()) or any(arrays[name].dtype.kind not in "iu" for name in ints):
        raise ValueError("ids are integers, one after the other")
    (n_states,), (n_actions,) = z.n_states.tolist(), z.n_actions.tolist()
    of_pairs = {len(getattr(z, n)) for n in ("pair_mdp", "pair", "n_visits", "reward_sum", "reward_square_sum",
                                             "duration", "n_successors")}  # fmt: skip
    of_outcomes = {len(z.successor), len(z.transition_count), len(z.n_terminated), int(z.n_successors.sum())}
    if len(of_pairs) != 1 or len(of_outcomes) != 1:
        raise ValueError("lengths differ")
    for pairs in (z.pair, z.forbidden):
        if (pairs < 0).any() or (pairs >= n_states * n_actions).any() or (np.diff(pairs) <= 0).any():
            raise ValueError("pairs out of range")
    for states in (z.successor, terminal):
        if (states < 0).any() or (states >= n_states).any():
            raise ValueError("states out of range")
    if (np.unique(z.forbidden // n_actions, return_counts=True)[1] == n_actions).any():
        raise ValueError("states without actions")
    ended = (z.n_terminated >= 0) & (z.n_terminated <= z.transition_count)
    with np.errstate(over="ignore"):
        if not z.transition_count.sum() <= MOST_TRANSITIONS:
            raise ValueError("counts add up to a number of transitions")
    if not (np.isfinite(z.transition_count) & (z.transition_count > 0) & ended).all() or (z.n_successors < 1).any():
        raise ValueError("counts are positive")
    low, high = reward_range.tolist()
    if not (np.isfinite(z.reward_sum).all() and np.isfinite(z.reward_square_sum).all()):
        raise ValueError("rewards are finite")
    if (z.reward_square_sum < 0).any():
        raise ValueError("squares are not negative")
    if len(z.pair) and not -LARGEST_REWARD <= low <= high <= LARGEST_REWARD:
        raise ValueError("rewards lie in a range")
