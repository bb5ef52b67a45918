"""Detecting trivial worlds, in which the random policy is optimal: they teach nothing."""

import numpy as np

from mdpfn.arrays import Bools, sums_by
from mdpfn.model.mdp import TabularMDP

SMALLEST_ADVANTAGE = 1e-4  # of the largest reward


def is_trivial(mdp: TabularMDP) -> bool:
    """Whether the uniformly random policy is optimal from the start.

    It is, exactly if no action has an advantage over it in a state that can be reached: A(s, a) = Q(s, a) − V(s) ≤ 0
    with V = (I − γ P_u)⁻¹ r_u its value. Smaller differences than a share of the largest reward do not count.
    """
    size = float(np.abs(mdp.reward).max())
    if size == 0.0:
        return True
    n_states, n_actions = mdp.n_states, mdp.n_actions
    state = np.repeat(np.arange(n_states), np.diff(mdp.transition.indptr[::n_actions]))
    edge = state * n_states + mdp.transition.indices
    uniform = sums_by(edge, mdp.transition.data / n_actions, n_states**2).reshape(n_states, -1)
    value = np.linalg.solve(np.eye(n_states) - mdp.discount * uniform, mdp.reward.mean(axis=1))
    q = mdp.reward + mdp.discount * (mdp.transition @ value).reshape(n_states, n_actions)
    better = q.max(axis=1) - value > SMALLEST_ADVANTAGE * size
    starts = mdp.start > 0
    if better[starts].any() or not better.any():  # nothing has to be reached
        return not better.any()
    return not better[reachable(uniform > 0, starts)].any()


def reachable(edge: Bools, start: Bools) -> Bools:
    """(S,) the states that paths along edges (S, S) from the start lead to."""
    step = (edge | np.eye(len(edge), dtype=bool)).astype(np.float32)
    found = start.astype(np.float32)
    n_found = 0
    while (n := int(np.count_nonzero(found))) > n_found:  # paths of length 1, 2, 4, …
        n_found = n
        found = np.minimum(found @ step, 1.0)
        step = np.minimum(step @ step, 1.0)
    return found > 0
