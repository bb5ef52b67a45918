"""The factors of states: every state as a row of small integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdpfn.arrays import Bools, Ints

LARGEST_KEY = 2**62


@dataclass(frozen=True, eq=False)
class Factors:
    """(S, d) the value of every factor in every state, from 0 on; no two states are alike.

    −1 in a row says that nothing is known of its state. Values that lie next to each other may be neighbours: whether
    an action adds to a factor or sets it is for the data to say.
    """

    codes: Ints
    sizes: Ints  # (d,) how many values each factor has

    @classmethod
    def of_product(cls, sizes: Sequence[int]) -> Factors:
        """All combinations, the last factor varying fastest: as `ProductCodec` numbers them."""
        codes = np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), tuple(sizes)), axis=1)
        return cls(codes.astype(np.int64), np.array(sizes, dtype=np.int64))

    @property
    def known(self) -> Bools:
        """(S,) states whose factors are known."""
        mask: Bools = np.logical_and.reduce(self.codes >= 0, axis=1)
        return mask

    @cached_property
    def _places(self) -> tuple[Ints, Ints]:
        """Keys of all known states in rising order, and whose they are."""
        states = np.flatnonzero(self.known)
        key = keys_of(self.codes[states], self.sizes, range(len(self.sizes)))
        order = np.argsort(key)
        return key[order], states[order]

    def states_of(self, codes: Ints) -> Ints:
        """(n,) the states with these values of all factors; −1 where there is none."""
        keys, states = self._places
        inside: Bools = np.logical_and.reduce((codes >= 0) & (codes < self.sizes), axis=1)
        key = keys_of(np.where(inside[:, None], codes, 0), self.sizes, range(len(self.sizes)))
        place, found = looked_up(keys, key)
        return np.where(inside & found, states[place], -1)

    @property
    def countable(self) -> bool:
        """Whether a combination of all factors has a number of its own."""
        return bool(np.prod(self.sizes.astype(np.float64)) < LARGEST_KEY)


def looked_up(keys: Ints, key: Ints) -> tuple[Ints, Bools]:
    """(n,) the place of each key among rising `keys`, and whether it is one of them."""
    place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
    return place, keys[place] == key


def keys_of(codes: Ints, sizes: Ints, subset: Sequence[int]) -> Ints:
    """(n,) one number for the values of some factors in each row of codes (n, d)."""
    key = np.zeros(len(codes), dtype=np.int64)
    for j in subset:
        key = key * sizes[j] + codes[:, j]
    return key
