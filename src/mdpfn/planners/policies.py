"""From scores of pairs to policies, and from policies to samples."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints
from mdpfn.planners.output import MIXING_TEMPERATURE

GOLDEN = (5**0.5 - 1) / 2
TIE = 2e-5  # logits closer than this are equal: they change by so much with the order in which states are summed up


def best_actions(scores: Floats) -> Ints:
    """(S,) the first best action of each state, for `scores` (S, A)."""
    actions: Ints = scores.argmax(axis=1)
    return actions


def greedy_actions(logits: Floats, unknown: Bools | None = None) -> Ints:
    """(S,) the first of the best actions; in `unknown` states (S,) actions by turns, as often as the policy has them.

    Unknown states all look alike. If the same action were taken in each of them, it could lead into the same wall.
    """
    actions = best_actions(logits >= logits.max(axis=1, keepdims=True) - TIE)
    if unknown is not None and unknown.any():
        cumulative = softmax(logits[unknown] / MIXING_TEMPERATURE).cumsum(axis=1)
        turn = (np.flatnonzero(unknown) * GOLDEN % 1)[:, None]  # evenly spread, whatever states are neighbours
        actions[unknown] = (cumulative > turn * cumulative[:, -1:]).argmax(axis=1)
    return actions


def one_hot(actions: Ints, n_actions: int) -> Floats:
    """(S, A) all probability on these actions (S,)."""
    policy = np.zeros((len(actions), n_actions))
    policy[np.arange(len(actions)), actions] = 1.0
    return policy


def softmax(logits: Floats) -> Floats:
    """(S, A) softmax over the actions of each state."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    policy: Floats = weights / weights.sum(axis=1, keepdims=True)
    return policy


class ActionSampler:
    """Draws actions of a policy (S, A) one at a time; cumulative rows are kept as lists, which read fastest."""

    def __init__(self, policy: Floats, rng: np.random.Generator) -> None:
        self.rng = rng
        self._cumulative: list[list[float]] = policy.cumsum(axis=1).tolist()

    def __call__(self, state: int, mask: Bools | None = None) -> int:
        """An action of this state, one of those that a mask (A,) allows."""
        row = self._cumulative[state]
        if mask is not None:
            chance = np.diff(row, prepend=0.0) * mask
            row = (chance if chance.any() else mask.astype(np.float64)).cumsum().tolist()
            return bisect_right(row, self.rng.random() * row[-1], hi=int(mask.nonzero()[0][-1]))
        return bisect_right(row, self.rng.random(), hi=len(row) - 1)
