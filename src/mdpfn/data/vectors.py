"""Reading logs of vectors into smoothed evidence."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mdpfn.arrays import Floats, Ints
from mdpfn.checks import finite_floats
from mdpfn.data.columns import NamedColumn
from mdpfn.data.episodes import FINAL
from mdpfn.data.missing import missing_rows, taken
from mdpfn.data.options import LogOptions
from mdpfn.data.reader import CUT_OFF, INCOMPLETE, TIES, checked_ties, ends_of, floats_of, missing_value, with_ends
from mdpfn.data.sources import Source
from mdpfn.errors import MdpfnError
from mdpfn.evidence.smoothed.evidence import nearest_codes, starts_of_episodes
from mdpfn.evidence.smoothed.memory import Batch
from mdpfn.online.vector_problem import VectorProblem
from mdpfn.spaces.binned import Binned
from mdpfn.spaces.vectors import GridCodec, is_vector_space, vectors_of


def are_vectors(source: Source, space: Any) -> tuple[bool, Source]:
    """Whether states are vectors (by their space if there is one, else if they are rows of floats), and the source.

    The source returned still yields the piece that was looked at.
    """
    if space is not None:
        return not isinstance(space, Binned) and is_vector_space(space), source
    head: Mapping[str, Any] | None = next(source.pieces, None)
    if head is None:
        return False, source
    whole = replace(source, pieces=chain([head], source.pieces))
    return vectors_of(head["state"]) is not None, whole


class VectorReader:
    """Logged transitions of vectors, with their spaces; where none are given, those that the data spans."""

    def __init__(self, source: Source, observation_space: Any, action_space: Any, log: LogOptions) -> None:
        for field, value in (("terminal", log.terminal), ("available", log.available)):
            if value is not None:
                limit = "states are vectors, which have no names"
                raise MdpfnError(field, "given", limit, "mark ends in a column, or cut states into bins: bins=…")
        if source.columns is not None and "count" in source.columns:
            limit = "states are vectors, whose transitions have no weights"
            remedy = "leave it out, repeat the rows, or cut states into bins: bins=…"
            raise MdpfnError("count", repr(source.columns["count"]), limit, remedy)
        self.source, self.log = source, log
        self.notes: Counter[str] = Counter()
        self.pieces = list(map(self._complete, source.pieces))
        if observation_space is None:
            n_dims = len(self._joined("state")[0])
            observation_space = spaces.Box(-np.inf, np.inf, (n_dims,), np.float64)
        self.spaces = observation_space, self._action_space() if action_space is None else action_space

    def _complete(self, piece: Mapping[str, Any]) -> dict[str, Any]:
        """The rows of a piece that are transitions, each with its next state and with flags."""
        n = len(piece["reward"])
        terminated, truncated, alone = ends_of(piece, n, self.source.columns, self.log)
        final = piece["kind"] == FINAL if "kind" in piece else np.zeros(n, dtype=bool)
        filled = {**piece, "reward": floats_of(piece, "reward")}
        filled["next_state"] = with_ends(piece["next_state"], piece["state"], terminated, alone)
        if "ties" in piece:
            self.notes[TIES] += checked_ties(piece, self.source.columns)
        roles = ("state", "action", "reward", "next_state")
        lacks = {role: missing_rows(filled[role]) for role in roles}
        if "kind" in piece:
            lacks |= {"episode": piece["no_episode"], "time": piece["no_time"]}
        cut_off = alone & ~terminated & ~final
        incomplete = np.any(list(lacks.values()), axis=0) & ~final & ~cut_off
        if incomplete.any() and self.log.missing == "raise":
            raise missing_value(piece, lacks, incomplete)
        self.notes[INCOMPLETE] += int(incomplete.sum())
        self.notes[CUT_OFF] += int(cut_off.sum())
        wanted = np.flatnonzero(~(incomplete | cut_off | final))
        rows = {role: taken(filled[role], wanted) for role in roles}
        if isinstance(rows["action"], NamedColumn):
            rows["action"] = rows["action"].spelled_out()
        flags = {"terminated": terminated[wanted], "truncated": truncated[wanted]}
        return rows | flags | ({"starts": piece["starts"][wanted]} if "starts" in piece else {})

    def read_into(self, problem: VectorProblem) -> None:
        """Add all transitions to a new problem, and plan."""
        evidence, states = problem.learner.evidence, problem.encoding.states
        last: Floats | None = None  # where the piece before went on
        for piece in self.pieces:
            x, y = states.encode_many(piece["state"]), states.encode_many(piece["next_state"])
            reward = finite_floats("reward", np.asarray(piece["reward"]))
            if len(reward):
                problem.options.check_rewards(float(reward.min()), float(reward.max()))
            terminated, truncated = piece["terminated"], piece["truncated"]
            action, code = self._actions(problem, piece["action"])
            evidence.extend(Batch(x, action, code, reward, y, terminated))
            over = terminated | truncated
            starts = piece["starts"] if "starts" in piece else starts_of_episodes(x, y, over, last)
            for row in np.flatnonzero(starts):
                evidence.add_start(x[row])
            if len(x):
                last = None if over[-1] else y[-1]
        if evidence.n_transitions == 0:
            raise MdpfnError("transitions", "empty", "there must be at least one", "check where they come from")
        problem.columns, problem.notes = self.source.columns, +self.notes
        problem.learner.replan()

    def _actions(self, problem: VectorProblem, values: Any) -> tuple[Ints, Floats]:
        """(k,) the number of each action, or of the nearest one, and (k, p) its code."""
        actions, codes = problem.encoding.actions, problem.learner.evidence.codes
        if isinstance(actions, GridCodec):
            code = actions.codes_of(values)
            return nearest_codes(code, codes), code
        number = actions.encode_many(values)
        return number, codes[number]

    def _joined(self, role: str) -> NDArray[Any]:
        """All values of a role."""
        if not self.pieces:
            raise MdpfnError("transitions", "empty", "there must be at least one", "check where they come from")
        return np.concatenate([np.asarray(piece[role]) for piece in self.pieces])

    def _action_space(self) -> Any:
        """The space that the actions of the data span: whole numbers from 0 on, names, or a box."""
        actions = self._joined("action")
        if actions.dtype.kind in "iub" and actions.ndim == 1:
            return int(actions.max()) + 1
        if actions.dtype.kind == "f":
            points = finite_floats("action", actions)
            return spaces.Box(points.min(0), points.max(0), points.shape[1:], np.float64)
        return list(dict.fromkeys(actions.tolist()))
