"""Terminal states as absorbing states that pay nothing, for planners and networks that know no terminations."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mdpfn.arrays import Floats, Ints, offsets_of, sums_by
from mdpfn.evidence.table import PairTable, of_structure


def with_absorbing(z: PairTable) -> PairTable:
    """The table with terminal states made absorbing: every action there was seen to stay and pay nothing.

    Each loop counts as often as the state ended an episode. Where episodes also went on from a state in which
    others terminated, it is not terminal: its terminations lead to one more state, the last of its MDP, instead.
    MDPs in which nothing terminated stay as they are.
    """
    absorbing = _absorbing(z)
    if absorbing is None:
        return z
    apart = absorbing.apart
    count, terminated = apart.split(z.transition_count, z.n_terminated)
    n_ended = sums_by(absorbing.ended_in, terminated[absorbing.ended])[absorbing.loop]
    nothing, pairs, transitions = np.zeros(len(n_ended)), absorbing.pairs, absorbing.transitions
    return absorbing.table.with_numbers(
        n_visits=np.concatenate([z.n_visits, n_ended]).take(pairs),
        reward_sum=np.concatenate([z.reward_sum, nothing]).take(pairs),
        reward_square_sum=np.concatenate([z.reward_square_sum, nothing]).take(pairs),
        duration=np.concatenate([z.duration, nothing + 1]).take(pairs),
        transition_count=np.concatenate([count, n_ended]).take(transitions),
        n_terminated=np.concatenate([terminated, nothing]).take(transitions),
        reward_scale=z.reward_scale,
    )


@dataclass(frozen=True, eq=False)
class _Apart:
    """Transitions that ended in states from which others went on: their endings become transitions of their own."""

    transition: Ints  # (apart,) which ones
    ending: Ints  # (apart,) the new transition that its endings become …
    row: Ints  # (endings,) … and the visited pair that this one belongs to

    @classmethod
    def of(cls, z: PairTable) -> _Apart:
        row, start = z.transition_row, offsets_of(z.n_states)
        left = np.zeros(start[-1], dtype=bool)
        left[start[z.pair_mdp] + z.state] = True
        apart = np.flatnonzero(left[start[z.pair_mdp[row]] + z.successor] & (z.n_terminated > 0))
        ending_row, ending = np.unique(row[apart], return_inverse=True)
        return cls(apart, ending, ending_row)

    def split(self, count: Floats, terminated: Floats) -> tuple[Floats, Floats]:
        """Counts and terminations of all transitions, the new ones last; old ones that all ended count 0."""
        if not len(self.row):
            return count, terminated
        n_ended = sums_by(self.ending, terminated[self.transition], len(self.row))
        count, terminated = np.append(count, n_ended), np.append(terminated, n_ended)
        count[self.transition] -= terminated[self.transition]
        terminated[self.transition] = 0.0
        return count, terminated


@dataclass(frozen=True, eq=False)
class _Absorbing:
    """What a table with absorbing states takes from where, in all tables of a structure."""

    table: PairTable  # one of its structure
    apart: _Apart
    ended: Ints  # transitions, the new ones among them, that ended an episode …
    ended_in: Ints  # … and in which of the terminal states
    loop: Ints  # (loops,) the terminal state of every additional pair
    pairs: Ints  # the visited pairs in order; additional ones come after those of the observed table
    transitions: Ints  # the transitions in order, likewise


@of_structure
def _absorbing(z: PairTable) -> _Absorbing | None:
    """Where loops go and what becomes of endings; None where nothing ended."""
    if not (z.n_terminated > 0).any():
        return None
    apart = _Apart.of(z)
    n_states = z.n_states.copy()
    n_states[z.pair_mdp[apart.row]] += 1  # fancy indexing adds once per MDP
    count, terminated = apart.split(z.transition_count, z.n_terminated)
    row = np.concatenate([z.transition_row, apart.row])
    successor = np.concatenate([z.successor, z.n_states[z.pair_mdp[apart.row]]])
    start = offsets_of(n_states)
    ended = np.flatnonzero(terminated)
    terminal, ended_in = np.unique(start[z.pair_mdp[row[ended]]] + successor[ended], return_inverse=True)
    mdp = np.searchsorted(start, terminal, side="right") - 1

    # One visited pair for every action of every terminal state, each with itself as its only successor.
    n_loops = z.n_actions[mdp]
    loop = np.repeat(np.arange(len(mdp)), n_loops)
    state, action = (terminal - start[mdp])[loop], np.arange(len(loop)) - offsets_of(n_loops)[loop]
    pair_mdp = np.concatenate([z.pair_mdp, mdp[loop]])
    pair = np.concatenate([z.pair, state * z.n_actions[mdp[loop]] + action])
    pairs = np.lexsort([pair, pair_mdp])
    place = np.argsort(pairs)[np.concatenate([row, len(z.pair) + np.arange(len(loop))])]
    transitions = np.argsort(place, kind="stable")
    transitions = transitions[np.append(count, np.ones(len(loop)))[transitions] > 0]
    table = replace(
        z,
        n_states=n_states,
        pair_mdp=pair_mdp[pairs],
        pair=pair[pairs],
        n_visits=np.ones(len(pairs)),
        reward_sum=np.zeros(len(pairs)),
        reward_square_sum=np.zeros(len(pairs)),
        duration=np.ones(len(pairs)),
        n_successors=np.bincount(place[transitions], minlength=len(pair)),
        successor=np.concatenate([successor, state])[transitions],
        transition_count=np.ones(len(transitions)),
        n_terminated=np.append(terminated, np.zeros(len(loop)))[transitions],
    )
    return _Absorbing(table, apart, ended, ended_in, loop, pairs, transitions)
