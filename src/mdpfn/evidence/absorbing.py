"""Terminal states as absorbing states that pay nothing, for planners and networks that know no terminations."""

from dataclasses import dataclass, replace

import numpy as np

from mdpfn.arrays import Floats, Ints, offsets_of, sums_by
from mdpfn.evidence.table import PairTable


def with_absorbing(z: PairTable) -> PairTable:
    """The table with terminal states made absorbing: every action there was seen to stay and pay nothing.

    Each loop counts as often as the state ended an episode. Where episodes also went on from a state in which
    others terminated, it is not terminal: its terminations lead to one more state, the last of its MDP, instead.
    MDPs in which nothing terminated stay as they are.
    """
    if not z.n_terminated.any():
        return z
    n_states, observed = _terminations_apart(z)
    z = replace(z, n_states=n_states)
    mdp, state, n_ended = _terminal_states(z, observed)

    # One visited pair for every action of every terminal state, each with itself as its only successor.
    n_loops = z.n_actions[mdp]
    loop = np.repeat(np.arange(len(mdp)), n_loops)
    action = np.arange(len(loop)) - offsets_of(n_loops)[loop]
    pair_mdp = np.concatenate([z.pair_mdp, mdp[loop]])
    pair = np.concatenate([z.pair, state[loop] * z.n_actions[mdp[loop]] + action])
    row = np.concatenate([observed.row, len(z.pair) + np.arange(len(loop))])

    pair_order = np.lexsort([pair, pair_mdp])
    place = np.argsort(pair_order)
    order = np.argsort(place[row], kind="stable")
    return replace(
        z,
        pair_mdp=pair_mdp[pair_order],
        pair=pair[pair_order],
        n_visits=np.concatenate([z.n_visits, n_ended[loop]])[pair_order],
        reward_sum=np.concatenate([z.reward_sum, np.zeros(len(loop))])[pair_order],
        reward_square_sum=np.concatenate([z.reward_square_sum, np.zeros(len(loop))])[pair_order],
        duration=np.concatenate([z.duration, np.ones(len(loop))])[pair_order],
        n_successors=np.bincount(place[row], minlength=len(pair)),
        successor=np.concatenate([observed.successor, state[loop]])[order],
        transition_count=np.concatenate([observed.count, n_ended[loop]])[order],
        n_terminated=np.concatenate([observed.terminated, np.zeros(len(loop))])[order],
    )


@dataclass(frozen=True, eq=False)
class _Observed:
    """Observed transitions, in any order."""

    row: Ints  # the visited pair they belong to
    successor: Ints
    count: Floats
    terminated: Floats


def _terminations_apart(z: PairTable) -> tuple[Ints, _Observed]:
    """(B,) numbers of states and the observed transitions, such that no terminal state was ever left."""
    row = z.transition_row
    mdp = z.pair_mdp[row]
    start = offsets_of(z.n_states)
    left = np.zeros(start[-1], dtype=bool)
    left[start[z.pair_mdp] + z.state] = True
    apart = left[start[mdp] + z.successor] & (z.n_terminated > 0)
    if not apart.any():
        return z.n_states, _Observed(row, z.successor, z.transition_count, z.n_terminated)

    went_on = np.where(apart, z.transition_count - z.n_terminated, z.transition_count)
    kept = went_on > 0
    ending, which = np.unique(row[apart], return_inverse=True)
    n_ended = sums_by(which, z.n_terminated[apart], len(ending))
    n_states = z.n_states.copy()
    n_states[z.pair_mdp[ending]] += 1  # fancy indexing adds once per MDP
    observed = _Observed(
        row=np.concatenate([row[kept], ending]),
        successor=np.concatenate([z.successor[kept], z.n_states[z.pair_mdp[ending]]]),
        count=np.concatenate([went_on[kept], n_ended]),
        terminated=np.concatenate([np.where(apart, 0.0, z.n_terminated)[kept], n_ended]),
    )
    return n_states, observed


def _terminal_states(z: PairTable, observed: _Observed) -> tuple[Ints, Ints, Floats]:
    """MDP, id and number of ended episodes of every state in which episodes ended."""
    start = offsets_of(z.n_states)
    arrived = start[z.pair_mdp[observed.row]] + observed.successor
    n_ended = sums_by(arrived, observed.terminated, int(start[-1]))
    terminal = np.flatnonzero(n_ended)
    mdp = np.searchsorted(start, terminal, side="right") - 1
    return mdp, terminal - start[mdp], n_ended[terminal]
