"""A learner on vectors as named arrays, and back: its memory and the plans it may act by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdpfn.errors import MdpfnError
from mdpfn.evidence.smoothed.memory import Batch
from mdpfn.evidence.smoothed.parts import part_from_arrays, part_to_arrays
from mdpfn.online.lookahead import VectorPlan
from mdpfn.online.selection import Lived
from mdpfn.online.vector_learner import Underway, VectorLearner

Arrays = dict[str, NDArray[Any]]
MEMORY, STARTS, COUNTS, SCALE = "memory.", "starts", "counts", "reward_scale"
NEWEST, INCUMBENT, EPISODES, UNDER_WAY = "newest.", "incumbent.", "episodes.", "under_way."


def learner_to_arrays(learner: VectorLearner) -> Arrays:
    """Everything that it goes on from, but its generator and its clock."""
    evidence, selection, n_dims = learner.evidence, learner.selection, learner.evidence.n_dims
    arrays: Arrays = {MEMORY + name: column for name, column in evidence.memory.batch()._asdict().items()}
    arrays[STARTS] = np.array(evidence.memory.starts).reshape(-1, n_dims)
    arrays[SCALE] = np.array(evidence.reward_scale)
    same = selection.incumbent is not None and selection.incumbent is selection.newest
    counts = [evidence.n_transitions, evidence.n_tabled, selection.challenged_at, selection.failed, selection.confirmed]
    arrays[COUNTS] = np.array([*counts, same], dtype=np.int64)
    if selection.newest is not None:
        arrays |= _lived_to_arrays(selection.newest, NEWEST, n_dims)
    if selection.incumbent is not None and not same:
        arrays |= _lived_to_arrays(selection.incumbent, INCUMBENT, n_dims)
    under_way = learner.under_way
    arrays[UNDER_WAY + "start"] = np.array([one.start for one in under_way]).reshape(-1, n_dims)
    arrays[UNDER_WAY + "last"] = np.array([one.last for one in under_way]).reshape(-1, n_dims)
    arrays[UNDER_WAY + "sums"] = np.array([(one.discounted, one.fade) for one in under_way]).reshape(-1, 2)
    return arrays


def restore_learner(learner: VectorLearner, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Put a new learner where the saved one was."""
    evidence, selection = learner.evidence, learner.selection
    try:
        evidence.extend(Batch(*(arrays[MEMORY + name] for name in Batch._fields)))
        for start in arrays[STARTS]:
            evidence.add_start(start)
        n_seen, n_tabled, challenged_at, failed, confirmed, same = arrays[COUNTS].tolist()
        evidence.memory.n_seen, evidence.n_tabled = n_seen, n_tabled
        evidence.reward_scale = float(arrays[SCALE])
        selection.challenged_at, selection.failed, selection.confirmed = challenged_at, bool(failed), bool(confirmed)
        selection.newest = _lived_from_arrays(arrays, NEWEST)
        selection.incumbent = selection.newest if same else _lived_from_arrays(arrays, INCUMBENT)
        if selection.newest is not None:
            evidence.model, evidence.nodes = selection.newest.plan.model, selection.newest.plan.nodes
        columns = (arrays[UNDER_WAY + name] for name in ("start", "last", "sums"))
        learner.under_way = [Underway(s, t, *sums.tolist()) for s, t, sums in zip(*columns, strict=True)]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        limit = f"its arrays must be those of transitions of vectors ({type(error).__name__}: {error})"
        raise MdpfnError("the agent", "not whole", limit, "use another copy") from None


def _lived_to_arrays(lived: Lived, prefix: str, n_dims: int) -> Arrays:
    episodes = prefix + EPISODES
    return part_to_arrays(lived.plan, prefix) | {
        episodes + "n_data": np.array(lived.n_data),
        episodes + "starts": np.array(lived.starts).reshape(-1, n_dims),
        episodes + "ends": np.array(lived.ends).reshape(-1, n_dims),
        episodes + "returns": np.array(lived.returns, dtype=np.float64),
        episodes + "tails": np.array(lived.tails, dtype=np.float64),
    }


def _lived_from_arrays(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Lived | None:
    episodes = prefix + EPISODES
    if episodes + "n_data" not in arrays:
        return None
    return Lived(
        part_from_arrays(VectorPlan, arrays, prefix),
        int(arrays[episodes + "n_data"]),
        list(arrays[episodes + "starts"]),
        list(arrays[episodes + "ends"]),
        arrays[episodes + "returns"].tolist(),
        arrays[episodes + "tails"].tolist(),
    )
