"""A vector learner as named arrays, and back: its memory and the plans it may act by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdpfn.evidence.smoothed import SmoothedEvidence
from mdpfn.evidence.smoothed.evidence import LARGEST_NUMBER
from mdpfn.evidence.smoothed.memory import Batch
from mdpfn.evidence.smoothed.parts import part_from_arrays, part_to_arrays
from mdpfn.online.lookahead import VectorPlan
from mdpfn.online.selection import Lived
from mdpfn.online.underway import Underway
from mdpfn.online.vector_learner import VectorLearner

Arrays = dict[str, NDArray[Any]]
LONGEST = 2**53  # steps, episodes: beyond, floats cannot count
MOST_NEIGHBOURS = 1_000  # and steps to weigh them
MEMORY, STARTS, COUNTS, SCALE = "memory.", "starts", "counts", "reward_scale"
NEWEST, INCUMBENT, EPISODES, UNDER_WAY = "newest.", "incumbent.", "episodes.", "under_way."


def learner_to_arrays(learner: VectorLearner) -> Arrays:
    """All state of a learner except its random generator and its clock."""
    evidence, selection, n_dims = learner.evidence, learner.selection, learner.evidence.n_dims
    arrays: Arrays = {MEMORY + name: column for name, column in evidence.memory.batch()._asdict().items()}
    arrays[STARTS] = np.array(evidence.memory.starts).reshape(-1, n_dims)
    arrays[SCALE] = np.array(evidence.reward_scale)
    same = selection.incumbent is not None and selection.incumbent is selection.newest
    counts = [evidence.n_transitions, evidence.n_tabled, selection.confirmed, selection.perfect]
    arrays[COUNTS] = np.array([*counts, same], dtype=np.int64)
    if selection.newest is not None:
        arrays |= _lived_to_arrays(selection.newest, NEWEST, n_dims)
    if selection.incumbent is not None and not same:
        arrays |= _lived_to_arrays(selection.incumbent, INCUMBENT, n_dims)
    under_way = learner.under_way
    arrays[UNDER_WAY + "last"] = np.array([one.last for one in under_way]).reshape(-1, n_dims)
    of_episodes = [(len(one.returns), one.n_steps, one.every) for one in under_way]
    arrays[UNDER_WAY + "counts"] = np.array(of_episodes, dtype=np.int64).reshape(-1, 3)
    arrays[UNDER_WAY + "moments"] = np.concatenate([np.zeros((0, n_dims)), *(one.moments for one in under_way)])
    sums = [np.column_stack([one.returns, one.fades]) for one in under_way]
    arrays[UNDER_WAY + "sums"] = np.concatenate([np.zeros((0, 2)), *sums])
    return arrays


def restore_learner(learner: VectorLearner, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Bring a new learner to the state of the saved one; arrays that are not those of one are refused."""
    evidence, selection = learner.evidence, learner.selection
    _check_columns(arrays, evidence)
    evidence.extend(Batch(*(arrays[MEMORY + name] for name in Batch._fields)))
    for start in arrays[STARTS]:
        evidence.add_start(start)
    n_seen, n_tabled, confirmed, perfect, same = arrays[COUNTS].tolist()
    evidence.memory.n_seen, evidence.n_tabled = n_seen, n_tabled
    evidence.reward_scale = float(arrays[SCALE])
    selection.confirmed, selection.perfect = bool(confirmed), bool(perfect)
    selection.newest = _lived_from_arrays(arrays, NEWEST)
    selection.incumbent = selection.newest if same else _lived_from_arrays(arrays, INCUMBENT)
    if selection.newest is not None:
        evidence.model, evidence.nodes = selection.newest.plan.model, selection.newest.plan.nodes
    learner.under_way = list(_episodes(arrays))
    for lived in (selection.newest, selection.incumbent):
        if lived is not None:
            _check_lived(lived, learner)


def _episodes(arrays: Mapping[str, NDArray[Any]]) -> Iterator[Underway]:
    """The episodes that were under way."""
    last, counts, moments, sums = (arrays[UNDER_WAY + name] for name in ("last", "counts", "moments", "sums"))
    cuts = counts[:-1, 0].cumsum()
    pieces = zip(last, counts.tolist(), np.split(moments, cuts), np.split(sums, cuts), strict=False)
    for here, (_, n_steps, every), seen, paid in pieces:
        yield Underway(seen, paid[:, 0].copy(), paid[:, 1].copy(), here, n_steps, every)


def _check_columns(arrays: Mapping[str, NDArray[Any]], evidence: SmoothedEvidence) -> None:
    """Refuse arrays of other types or sizes than those of transitions, and numbers that are not finite."""
    n, d = len(arrays[MEMORY + "x"]), evidence.n_dims
    shapes = {
        "x": (n, d),
        "action": (n,),
        "code": (n, evidence.codes.shape[1]),
        "reward": (n,),
        "y": (n, d),
        "ended": (n,),
    }
    wanted = {MEMORY + name: (shape, {"action": "i", "ended": "b"}.get(name, "f")) for name, shape in shapes.items()}
    for name, width in ((STARTS, d), (UNDER_WAY + "moments", d), (UNDER_WAY + "last", d), (UNDER_WAY + "sums", 2)):
        wanted[name] = ((len(arrays[name]), width), "f")
    wanted |= {SCALE: ((), "f"), COUNTS: ((5,), "i"), UNDER_WAY + "counts": ((len(arrays[UNDER_WAY + "last"]), 3), "i")}
    for name, (shape, kind) in wanted.items():
        array = arrays[name]
        if array.shape != shape or array.dtype.kind != kind or array.dtype.itemsize not in (1, 8):
            raise ValueError(f"{name} is {array.dtype} {array.shape}, not {shape}")
        if kind == "f" and not (np.abs(array) <= LARGEST_NUMBER).all():
            raise ValueError(f"{name} is not finite")
    n_seen, n_tabled = arrays[COUNTS][:2].tolist()
    if not (n <= n_seen < LONGEST and 0 <= n_tabled <= n_seen):
        raise ValueError("more is kept than was seen")
    moments, n_steps, every = arrays[UNDER_WAY + "counts"].T
    n_moments = len(arrays[UNDER_WAY + "moments"])
    if n_moments != len(arrays[UNDER_WAY + "sums"]) or moments.sum() != n_moments or (moments < 0).any():
        raise ValueError("episodes under way have another number of moments")
    if (n_steps < 0).any() or (n_steps >= LONGEST).any() or (every < 1).any() or (every >= LONGEST).any():
        raise ValueError("episodes under way cannot be as long")
    if not ((arrays[MEMORY + "action"] >= 0) & (arrays[MEMORY + "action"] < len(evidence.codes))).all():
        raise ValueError("an action out of range")


def _check_lived(lived: Lived, learner: VectorLearner) -> None:
    """Refuse a plan that cannot be acted by: tried out where the agent was, it must give finite values."""
    plan, smoother, evidence = lived.plan, lived.plan.model.smoother, learner.evidence
    n_outputs, n_inputs = evidence.n_dims + 1, evidence.n_dims + evidence.codes.shape[1]
    fits = plan.model.codes.shape == evidence.codes.shape and plan.model.discount == learner.config.discount
    fits &= all(((smoother.active >= 0) & (smoother.active < n_outputs)).tolist())
    fits &= smoother.theta.shape == (2 * n_inputs + 4 * len(smoother.active),)
    fits &= 1 <= plan.nodes.n_neighbours <= MOST_NEIGHBOURS and 0 <= plan.nodes.newton_steps <= MOST_NEIGHBOURS
    fits &= len(lived.starts) == len(lived.ends) == len(lived.returns) == len(lived.tails)
    fits &= 0 <= lived.n_data <= evidence.n_transitions and 0 <= smoother.n_fitted <= evidence.n_transitions
    observed = [*evidence.memory.batch().x[-1:], *lived.starts, *lived.ends]
    if not fits or not observed or not np.isfinite([*lived.returns, *lived.tails]).all():
        raise ValueError("a plan of another problem")
    with np.errstate(all="ignore"):
        x = np.array(observed)
        parts = [plan.state_value(x), plan.action_values(x[:1], learner.config), plan.nodes.slopes(plan.value)]
        parts += [plan.action_values(x[:1], learner.config, curious=True)] if plan.is_lost else []
        parts.append(plan.nodes.locate(x[:1])[1])
    if not all(np.isfinite(part).all() for part in parts):
        raise ValueError("values are finite")


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
