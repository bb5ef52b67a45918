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
    surest = np.zeros((n_actions, n_states))
    if not len(start):
        return surest.T
    key = start * n_states + following  # the moves from one state to another
    order = np.argsort(key, kind="stable")  # nearly in order already
    is_first = np.append(True, np.diff(key[order]) > 0)
    move = order[is_first]  # one for each
    keys, back = key[move], following[move] * n_states + start[move]
    there = np.zeros((len(keys), n_actions))
    there[np.cumsum(is_first) - 1, action[order]] = probability[order]
    position = np.minimum(np.searchsorted(keys, back), len(keys) - 1)
    returns = np.flatnonzero(keys[position] == back)
    place = action * n_states + following
    entered = sums_by(place, probability, n_states * n_actions).reshape(n_actions, n_states)
    undoes = there.take(returns, axis=0).T @ there.take(position[returns], axis=0) / (entered @ tried + 1)
    most, rising = np.zeros(n_states * n_actions), probability.argsort(kind="stable")
    most[place[rising]] = probability[rising]  # the largest is written last
    for most_by, undone_by in zip(most.reshape(n_actions, n_states), undoes, strict=True):
        np.maximum(surest, undone_by[:, None] * most_by, out=surest)
    return surest.T
