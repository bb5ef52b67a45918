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
    key = start * n_states + following  # the moves from one state to another
    order = np.argsort(key, kind="stable")  # nearly in order already
    distinct = np.flatnonzero(np.diff(key[order], prepend=-1))
    move = order[distinct]  # one for each
    keys, back = key[move], following[move] * n_states + start[move]
    there = np.zeros((len(keys), n_actions))
    there[np.repeat(np.arange(len(keys)), np.diff(distinct, append=len(key))), action[order]] = probability[order]
    position = np.minimum(np.searchsorted(keys, back), len(keys) - 1)
    returns = keys[position] == back
    place = following * n_actions + action
    entered = sums_by(place, probability, n_states * n_actions).reshape(n_states, n_actions)
    undoes = there[returns].T @ there[position[returns]] / (entered.T @ tried + 1)
    most = np.zeros(n_states * n_actions)
    np.maximum.at(most, place, probability)
    for most_by, undone_by in zip(most.reshape(n_states, n_actions).T, undoes, strict=True):
        np.maximum(surest, most_by[:, None] * undone_by, out=surest)
    return surest
