"""Which untried actions probably lead back: what undoes an action elsewhere undoes it here.

Left undoes right. Whoever has seen that a few times looks first where it is not going to come from: an untried action
that undoes the one by which a state was entered is likely to bring nothing new.
"""

from __future__ import annotations

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints, sums_by


def undone(start: Ints, action: Ints, following: Ints, probability: Floats, tried: Bools) -> Floats:
    """(states, A) how surely an action leads back to where its state was entered from; (states, A) which were `tried`.

    The four arrays are moves: P(following | start, action), between different states that were left at least once.
    That b undoes a is the share of a's moves that b took back, where b was tried after them, and one more that it did
    not take back. Where a state was entered in several ways the surest counts.
    """
    n_states, n_actions = tried.shape
    surest = np.zeros((n_states, n_actions))
    if not len(start):
        return surest
    to, back = start * n_states + following, following * n_states + start
    keys, place = np.unique(to, return_inverse=True)
    position = np.minimum(np.searchsorted(keys, back), len(keys) - 1)
    returns = keys[position] == back
    there, again = np.zeros((2, len(keys), n_actions))
    there[place, action] = probability
    again[position[returns], action[returns]] = probability[returns]
    undoes = there.T @ again
    entered = sums_by(following * n_actions + action, probability, n_states * n_actions).reshape(n_states, n_actions)
    undoes /= entered.T @ tried + 1
    order = np.argsort(following, kind="stable")
    first = np.flatnonzero(np.diff(following[order], prepend=-1))
    sure = probability[order, None] * undoes[action[order]]
    surest[following[order][first]] = np.maximum.reduceat(sure, first)
    return surest
