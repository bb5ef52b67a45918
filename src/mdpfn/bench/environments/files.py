"""Environments on disk, one NumPy .npz file each, so that agents can be measured on anyone's problems.

Keys are `r` and either `P_idx` and `P_val` or `P`; optional are `r_sas_val`, `reward_sd`, `start`, `absorbing`,
`discount` and `horizon`. docs/tutorials/custom-environment.md describes them.
"""

import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mdpfn.arrays import Floats, Ints, entry_rows, offsets_of, sums_by
from mdpfn.bench.environments.base import Environment
from mdpfn.checks import checked_ids, finite_floats, whole_number
from mdpfn.errors import MdpfnError
from mdpfn.model.mdp import TabularMDP

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

SHORTEST, LONGEST = 50, 200  # steps of an episode
ROUNDING = 1e-4  # probabilities may be stored in single precision; sums this close to 1 are made exactly 1
CHECKSUM_DIGITS = 12


def save_environment(path: Path | str, mdp: TabularMDP, horizon: int = LONGEST) -> None:
    """Write an MDP and the length of its episodes to a file that `load_environment` reads."""
    arrays: dict[str, Any] = {
        "P_idx": entry_rows(mdp.transition) * mdp.n_states + mdp.transition.indices,
        "P_val": mdp.transition.data,
        "r": mdp.reward,
        "r_sas_val": mdp.outcome_reward,
        "reward_sd": mdp.reward_std,
        "start": mdp.start,
        "absorbing": mdp.terminal,
        "discount": mdp.discount,
        "horizon": whole_number("horizon", horizon, low=1),
    }
    with Path(path).open("wb") as file:
        np.savez_compressed(file, **arrays)


def load_environment(path: Path | str) -> Environment:
    """The environment in a file, called as the file is without its extension; its content is checked at once."""
    path = Path(path)
    _, horizon = _read(path)
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()[:CHECKSUM_DIGITS]
    return Environment(path.stem, "file", path.name, horizon, partial(_build, path), checksum)


def load_environments(folder: Path | str) -> list[Environment]:
    """The environments in all .npz files of a folder, by name."""
    paths = sorted(Path(folder).glob("*.npz"))
    if not paths:
        limit = "it must be a folder with .npz files"
        raise MdpfnError("the folder", repr(str(folder)), limit, "check the path, or write files with save_environment")
    return [load_environment(path) for path in paths]


def _build(path: Path) -> TabularMDP:
    return _read(path)[0]


def _read(path: Path) -> tuple[TabularMDP, int]:
    """The MDP and its horizon; errors name the file."""
    try:
        with path.open("rb") as file, np.load(file) as stored:
            arrays = {key: stored[key] for key in stored.files}
    except (BadZipFile, EOFError, TypeError, ValueError) as error:  # TypeError: a single array
        limit = "it must be an .npz file of plain arrays"
        raise MdpfnError("the file", repr(str(path)), f"{limit} ({error})", "write it with save_environment") from None
    try:
        return _mdp(arrays), _horizon(arrays)
    except MdpfnError as error:
        raise MdpfnError(f"{path.name}: {error.field}", error.value, error.limit, error.remedy) from None


def _mdp(arrays: Arrays) -> TabularMDP:
    reward = finite_floats("r", _required(arrays, "r"))
    if reward.ndim != 2 or reward.size == 0:
        raise MdpfnError("r", f"an array of shape {reward.shape}", "the shape must be (S, A)", "reshape it")
    n_states, n_actions = reward.shape
    index, probability = _entries(arrays, n_states, n_actions)
    order = np.argsort(index)
    pair, next_state = np.divmod(index[order], n_states)
    lengths = np.bincount(pair, minlength=n_states * n_actions)
    sums = sums_by(pair, probability[order], n_states * n_actions)
    transition = csr_array(
        (probability[order] / _divisor(sums)[pair], next_state, offsets_of(lengths)),
        shape=(n_states * n_actions, n_states),
    )
    rewards: dict[str, Any] = {"reward": reward}
    if "r_sas_val" in arrays:
        of_outcome = finite_floats("r_sas_val", arrays["r_sas_val"])
        if "P_idx" not in arrays or of_outcome.shape != index.shape:
            limit = "it needs one entry for each in P_idx"
            raise MdpfnError(
                "r_sas_val", f"an array of shape {of_outcome.shape}", limit, "give P_idx, P_val and it alike"
            )
        rewards = {"outcome_reward": of_outcome[order]}
    optional: dict[str, Any] = {
        name: arrays[key]
        for key, name in (("reward_sd", "reward_std"), ("absorbing", "terminal"), ("start", "start"))
        if key in arrays
    }
    if "start" in optional:
        start = finite_floats("start", optional["start"])
        optional["start"] = start / _divisor(start.sum()) if start.ndim else arrays["start"]
    if "discount" in arrays:
        optional["discount"] = _number(arrays, "discount")
    return TabularMDP.from_sparse(transition, n_actions, **rewards, **optional)


def _entries(arrays: Arrays, n_states: int, n_actions: int) -> tuple[Ints, Floats]:
    """(n,) flat indices into P[S, A, S], each once, and (n,) the probabilities there."""
    shape = (n_states, n_actions, n_states)
    if "P_idx" not in arrays:
        dense = finite_floats("P", _required(arrays, "P"))
        if dense.shape != shape:
            limit = f"with this r the shape must be (S, A, S) = {shape}"
            raise MdpfnError("P", f"an array of shape {dense.shape}", limit, "reshape P or r")
        index = np.flatnonzero(dense)
        return index, dense.reshape(-1)[index]
    index = checked_ids("P_idx", arrays["P_idx"], n_states * n_actions * n_states)
    probability = finite_floats("P_val", _required(arrays, "P_val"))
    if probability.shape != index.shape:
        limit = f"it needs one entry for each of the {len(index)} in P_idx"
        raise MdpfnError("P_val", f"an array of shape {probability.shape}", limit, "give both with the same length")
    if len(np.unique(index)) < len(index):
        raise MdpfnError("P_idx", "an array with repeated entries", "each may occur once", "add up their probabilities")
    return index, probability


def _divisor(sums: Floats) -> Floats:
    """What to divide by so that sums that differ from 1 by rounding become 1; others are left, to be refused later."""
    return np.where(np.abs(sums - 1) < ROUNDING, sums, 1.0)


def _horizon(arrays: Arrays) -> int:
    horizon = _number(arrays, "horizon") if "horizon" in arrays else SHORTEST
    if horizon != int(horizon):
        raise MdpfnError("horizon", horizon, "it must be a whole number", "round it")
    return int(np.clip(horizon, SHORTEST, LONGEST))


def _number(arrays: Arrays, key: str) -> float:
    array = finite_floats(key, arrays[key])
    if array.size != 1:
        raise MdpfnError(key, f"an array of shape {array.shape}", "it must be one number", "give one number")
    return float(array.item())


def _required(arrays: Arrays, key: str) -> NDArray[Any]:
    if key not in arrays:
        there = ", ".join(sorted(arrays)) or "nothing"
        raise MdpfnError(
            key, "missing", f"the file has only {there}", "add it, or write the file with save_environment"
        )
    return arrays[key]
