"""The second kind of evidence: transitions of vectors go in, a table of pairs over nodes comes out."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints
from mdpfn.errors import MdpfnError, shown
from mdpfn.evidence.counts import LARGEST_REWARD, checked_reward
from mdpfn.evidence.protocol import Novelty, Transition
from mdpfn.evidence.smoothed.config import SmootherConfig
from mdpfn.evidence.smoothed.memory import Batch, Memory
from mdpfn.evidence.smoothed.nodes import Nodes, choose_nodes
from mdpfn.evidence.smoothed.table import pair_table
from mdpfn.evidence.smoothed.world_model import WorldModel
from mdpfn.evidence.table import PairTable

LARGEST_NUMBER = LARGEST_REWARD  # so that sums of squares do not overflow
DEFAULT_CONFIG = SmootherConfig()


class SmoothedEvidence:
    """Transitions of vectors, what the smoother makes of them, and the table that follows.

    States of transitions are vectors (d,); actions are numbers of rows of `codes`, which say what the smoother sees
    of an action, or such a row itself. `bounds` are what every number is said to stay in. An episode is told by its
    observations: it goes on where the last one ended.
    """

    def __init__(
        self,
        n_dims: int,
        codes: Floats,
        config: SmootherConfig = DEFAULT_CONFIG,
        rng: np.random.Generator | None = None,
        bounds: tuple[Floats, Floats] | None = None,
    ) -> None:
        self.bounds = (np.full(n_dims, -np.inf), np.full(n_dims, np.inf)) if bounds is None else bounds
        self.n_dims, self.codes, self.config = n_dims, codes, config
        self.memory = Memory(n_dims, codes.shape[1], config)
        self.rng = np.random.default_rng(0) if rng is None else rng
        self.reward_scale = 0.0  # the largest |reward| so far
        self.model: WorldModel | None = None
        self.nodes: Nodes | None = None
        self.n_tabled = 0  # transitions that were known when the table was made
        self._table: PairTable | None = None

    @property
    def n_transitions(self) -> int:
        """How many were observed, kept or not."""
        return self.memory.n_seen

    @property
    def n_states(self) -> int:
        """How many nodes the table has."""
        return int(self.table().n_states[0])

    @property
    def n_actions(self) -> int:
        """How many options every node has: each action, held for some strides."""
        return len(self.codes) * self.config.n_options

    @property
    def growth(self) -> float:
        """How many times as many transitions there are as when the table was made."""
        return self.memory.n_seen / self.n_tabled if self.n_tabled else np.inf

    def add(self, transition: Transition) -> Novelty:
        """Take in one transition and say what was new; every one is part of the visits of all pairs near it."""
        before = self.reward_scale
        action, code = self._coded(transition.action)
        row = Batch(
            np.asarray(transition.state, dtype=np.float64)[None],
            np.array([action]),
            code[None],
            np.array([checked_reward(transition.reward)]),
            np.asarray(transition.next_state, dtype=np.float64)[None],
            np.array([bool(transition.terminated)]),
        )
        self.extend(row)
        grown = self.growth >= 1 + self.config.grow_mid
        return Novelty(float(self.memory.n_seen), new_successor=grown, new_scale=self.reward_scale != before)

    def add_start(self, x: Floats) -> None:
        """Remember where an episode began."""
        self.memory.add_start(x)

    def extend(self, rows: Batch) -> None:
        """Take in many transitions; none of them if one holds numbers that are not finite, or of another length."""
        for field, values in (("observation", rows.x), ("next observation", rows.y), ("reward", rows.reward)):
            if not (np.abs(values) <= LARGEST_NUMBER).all():
                limit = f"every number of it must be finite, at most {LARGEST_NUMBER:g} in size"
                raise MdpfnError(field, "beyond that", limit, "leave that transition out, or mend the environment")
            if values.ndim == 2 and values.shape[1] != self.n_dims:
                limit = f"the first had {self.n_dims} numbers"
                raise MdpfnError(field, f"of {values.shape[1]} numbers", limit, "give all of them one shape")
        self.memory.extend(rows)
        self.reward_scale = max(self.reward_scale, float(np.abs(rows.reward).max(initial=0.0)))

    def table(self) -> PairTable:
        """The options of all nodes, as flat arrays: a batch of one; made once for what is known."""
        if self._table is None or self.n_tabled != self.memory.n_seen:
            if not len(self.memory):
                limit = "there is nothing to smooth yet"
                raise MdpfnError("the evidence", "empty", limit, "add transitions first")
            data = self.memory.batch()
            starts = np.array(self.memory.starts or data.x[:1])
            self.model = WorldModel.fit(data, self.codes, self.bounds, self.config, self.rng, self.model)
            self.nodes = choose_nodes(data, starts, self.model, self.config, self.rng)
            self._table = pair_table(self.model, self.nodes, data, self.config)
            self.n_tabled = self.memory.n_seen
        return self._table

    def locate(self, x: Floats) -> tuple[Ints, Floats]:
        """(n, k) the nodes around each observation (n, d), and their weights."""
        if self.nodes is None:
            self.table()
        assert self.nodes is not None
        return self.nodes.locate(x)

    def nearest(self, x: Floats, action: int | Floats | None = None, n: int = 5) -> tuple[Batch, Floats]:
        """The n kept transitions nearest to an observation (d,), and their distances (n,), the nearest first.

        With an action only those of it, or where it is a code of the nearest one. Distances are in standard deviations
        of the nodes, those by which values are smoothed.
        """
        x = np.asarray(x, dtype=np.float64)
        if x.shape != (self.n_dims,):
            limit = f"it must hold {self.n_dims} numbers"
            raise MdpfnError("observation", f"of shape {x.shape}", limit, "give one observation")
        if action is not None and np.ndim(action) == 0 and not 0 <= int(action) < len(self.codes):
            limit = f"actions are numbered from 0 to {len(self.codes) - 1}"
            raise MdpfnError("action", shown(action), limit, "use one of these")
        self.table()
        assert self.nodes is not None
        data = self.memory.batch()
        rows = np.arange(len(data.x)) if action is None else np.flatnonzero(data.action == self._coded(action)[0])
        distance = np.sqrt((((data.x[rows] - x) / self.nodes.scale) ** 2).sum(1))
        order = np.argsort(distance, kind="stable")[:n]
        columns: list[Any] = [column[rows[order]] for column in data]
        return Batch(*columns), np.asarray(distance[order])

    def n_near(self, x: Floats) -> Floats:
        """(actions,) how many transitions of each action there are near an observation, farther ones counting less.

        What is near is told by the last table, which must be there.
        """
        assert self.nodes is not None
        data = self.memory.batch()
        square = (((data.x - x) / self.nodes.scale) ** 2).sum(1)
        weight = np.exp(-0.5 * square / self.config.bandwidth**2)
        return np.bincount(data.action, weight, len(self.codes)).astype(np.float64)

    def _coded(self, action: int | Floats) -> tuple[int, Floats]:
        """The number of an action, or of the nearest one, and its code."""
        if np.ndim(action) == 0:
            number = int(action)
            return number, self.codes[number]
        return int(nearest_codes(np.asarray(action)[None], self.codes)[0]), np.asarray(action, dtype=np.float64)


def nearest_codes(codes: Floats, among: Floats) -> Ints:
    """(n,) the number of the nearest row of `among` to each code."""
    return np.asarray(((codes[:, None] - among) ** 2).sum(2).argmin(1))


def starts_of_episodes(x: Floats, y: Floats, ended: Bools, before: Floats | None = None) -> Bools:
    """(n,) rows that do not go on where the one before them ended, the first one in `before` if there was one."""
    starts = np.ones(len(x), np.bool_)
    starts[1:] = ended[:-1] | (x[1:] != y[:-1]).any(1)
    starts[:1] = before is None or (x[:1] != before).any(1)
    return starts
