"""Policies of an agent: from scores to actions and probabilities, and from probabilities to samples."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from mdpfn.arrays import Floats, Ints
from mdpfn.outlook import MIXING_TEMPERATURE, Outlook


def best_actions(scores: Floats) -> Ints:
    """(S,) the first best action of each state, for `scores` (S, A)."""
    actions: Ints = scores.argmax(axis=1)
    return actions


def greedy(scores: Floats) -> Floats:
    """(S, A) all probability on the first best action of each state, for `scores` (S, A)."""
    return exploiting(Outlook(scores))


def exploiting(outlook: Outlook, best: Ints | None = None) -> Floats:
    """(S, A) the `best` action of each state (S,), by default that of the logits, and a mixture in unknown states.

    Unknown states all look alike. In each of them the same action would be taken, and could hit a wall for ever.
    """
    logits, unknown = outlook.policy_logits, outlook.unknown
    policy = np.zeros(logits.shape)
    policy[np.arange(len(logits)), best_actions(logits) if best is None else best] = 1.0
    if unknown is not None:
        policy[unknown] = softmax(logits[unknown] / MIXING_TEMPERATURE)
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

    def __call__(self, state: int) -> int:
        """An action of this state."""
        row = self._cumulative[state]
        return bisect_right(row, self.rng.random(), hi=len(row) - 1)
