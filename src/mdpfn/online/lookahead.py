"""Acting from the very observation: a beam of options through the model, values at their ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mdpfn.arrays import Floats, Ints
from mdpfn.evidence.smoothed.config import SmootherConfig
from mdpfn.evidence.smoothed.nodes import Nodes
from mdpfn.evidence.smoothed.world_model import WorldModel
from mdpfn.online.one_thread import on_one_thread


@dataclass(frozen=True, eq=False)
class VectorPlan:
    """A model, nodes and their values: all that acting needs; immutable, so that a plan that lived well can be kept."""

    model: WorldModel
    nodes: Nodes
    value: Floats  # (nodes,)
    slope: Floats  # (nodes, d)
    hope: Floats  # (nodes,) values without fear of the unknown: what is believed possible
    hope_slope: Floats
    floor: float  # what the unknown is feared to be worth
    bound: float  # no state is thought to be worth more, in rewards as they are
    curious: Floats | None = None  # (nodes,) values of the unknown, only while lost
    curious_slope: Floats | None = None

    @property
    def is_lost(self) -> bool:
        """Whether it looks for something that pays."""
        return self.curious is not None

    @property
    def value_range(self) -> float:
        """How far apart values lie."""
        return float(np.ptp(self.hope))

    def state_value(self, x: Floats) -> Floats:
        """(n,) what is believed possible from observations (n, d), in rewards as they are."""
        value = self.nodes.interpolate(x, self.hope, self.hope_slope)[0]
        return value if self.model.potential is None else value - self.model.potential(x)

    @on_one_thread
    def action_values(self, x: Floats, config: SmootherConfig, *, curious: bool = False) -> Floats:
        """(n, actions) Q(x, a) of observations (n, d)."""
        n, n_actions = len(x), len(self.model.codes)
        if n == 0:
            return np.zeros((0, n_actions))
        first = np.tile(np.arange(n_actions), n)  # action of every partial plan
        ends = self._ends(np.repeat(x, n_actions, 0), first, config.strides, config, curious)
        q: Floats = ends.total.max(0).reshape(n, n_actions)
        if curious:
            return q
        later = _plain_actions(self.model.codes)
        for _ in range(config.depth):
            n_paths = ends.total.shape[1] // n
            flat = ends.total.reshape(-1, n, n_paths).transpose(1, 0, 2).reshape(n, -1)
            k = min(config.beam, flat.shape[1])
            top = np.argpartition(-flat, k - 1, axis=1)[:, :k]
            stride = (top // n_paths).ravel()
            path = (top % n_paths + np.arange(n)[:, None] * n_paths).ravel()
            reward, discount, here = ends.reward[stride, path], ends.discount[stride, path], ends.end[stride, path]
            first = np.repeat(first[path], len(later))
            follows = np.tile(later, len(here))
            more = self._ends(np.repeat(here, len(later), 0), follows, config.strides_on, config, False)
            reward, discount = np.repeat(reward, len(later)), np.repeat(discount, len(later))
            ends = _Ends(more.end, reward + discount * more.reward, discount * more.discount,
                         reward + discount * more.total)  # fmt: skip
            np.maximum.at(q, (np.repeat(np.arange(n), k * len(later)), first), ends.total.max(0))
        return q

    def _ends(self, x: Floats, action: Ints, strides: tuple[int, ...], config: SmootherConfig, curious: bool) -> _Ends:
        """What every stride of these actions leads to."""
        ahead = self.model.roll(x, action, strides)
        shape = ahead.reward.shape
        of_nodes, slope = self.value, self.slope
        if curious and self.curious is not None and self.curious_slope is not None:
            of_nodes, slope = self.curious, self.curious_slope
        value, unknown = self.nodes.interpolate(ahead.end.reshape(-1, x.shape[1]), of_nodes, slope)
        value, unknown = value.reshape(shape), unknown.reshape(shape) * ahead.survival
        if curious:
            discount = ahead.discount * (1 - unknown)
            return _Ends(ahead.end, unknown, discount, unknown + discount * value)
        fear = config.pessimism * unknown
        reward, discount = ahead.reward + ahead.discount * fear * self.floor, ahead.discount * (1 - fear)
        return _Ends(ahead.end, reward, discount, reward + discount * value)


def _plain_actions(codes: Floats) -> Ints:
    """Actions that may follow the first one in a beam: of a grid the corners and middles, 9 of 25 in two dimensions."""
    plain: Ints = np.flatnonzero(((codes == 0) | (np.abs(codes) == 1)).all(1))
    return plain if len(plain) else np.arange(len(codes))


class _Ends(NamedTuple):
    """Where partial plans lead, by the stride of their last option."""

    end: Floats  # (strides, n, d)
    reward: Floats  # (strides, n) on the way
    discount: Floats  # (strides, n) of what follows
    total: Floats  # (strides, n) reward and discounted value
