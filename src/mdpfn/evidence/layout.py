"""Which tokens a batch of statistics has: visited pairs, the states they belong to, and one unvisited state per MDP."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdpfn.arrays import Bools, Ints, MDPInts, PairInts, TokenBools, TokenInts, TransitionInts, offsets_of
from mdpfn.evidence.table import PairTable, of_structure


@dataclass(frozen=True, eq=False)
class Layout:
    """The state tokens of a table, and which of them its pairs and transitions belong to.

    They are the *active* states (some pair visited), sorted, then one *unvisited* state per MDP, which
    stands for all its states none of whose pairs was visited, if there are any.
    """

    active: Ints  # (active,) id of each active state, within its MDP
    active_mdp: Ints  # (active,)
    state_mdp: TokenInts  # MDP of each state token
    visited_state: PairInts  # state token of each visited pair
    successor: TransitionInts  # state token of each observed successor
    n_unvisited_actions: TokenInts  # actions of a state token that were never taken, and may be
    n_unvisited_states: MDPInts  # states that the unvisited token stands for
    is_terminal: TokenBools  # whether an episode was seen to terminate in a state token

    @staticmethod
    @of_structure
    def of(z: PairTable) -> Layout:
        """The layout of these statistics."""
        n_mdps, state_start = len(z), offsets_of(z.n_states)
        state = state_start[z.pair_mdp] + z.state
        active, visited_state = np.unique(state, return_inverse=True)
        active_mdp = np.asarray(np.searchsorted(state_start, active, side="right") - 1)
        state_mdp = np.concatenate([active_mdp, np.arange(n_mdps)])
        successor = _token(state_start[z.pair_mdp[z.transition_row]] + z.successor, active)
        masked = _token(state_start[z.forbidden_mdp] + z.forbidden // z.n_actions[z.forbidden_mdp], active)
        n_masked = np.bincount(masked[masked >= 0], minlength=len(state_mdp))
        n_tried = np.bincount(visited_state, minlength=len(state_mdp))
        is_unvisited = successor < 0
        successor[is_unvisited] = len(active) + z.pair_mdp[z.transition_row[is_unvisited]]
        is_terminal = np.zeros(len(state_mdp), dtype=bool)
        is_terminal[successor[z.n_terminated > 0]] = True
        return Layout(
            active=active - state_start[active_mdp],
            active_mdp=active_mdp,
            state_mdp=state_mdp,
            visited_state=visited_state,
            successor=successor,
            n_unvisited_actions=np.maximum(z.n_actions[state_mdp] - n_tried - n_masked, 0),
            n_unvisited_states=z.n_states - np.bincount(active_mdp, minlength=n_mdps),
            is_terminal=is_terminal,
        )

    @cached_property
    def goes_on(self) -> Bools:
        """(visited,) whether the state of a pair is one from which there is something to earn."""
        return ~self.is_terminal[self.visited_state]

    @cached_property
    def n_known(self) -> Ints:
        """(B,) how many states of each MDP have a token of their own."""
        return np.bincount(self.active_mdp, minlength=len(self.n_unvisited_states))

    @property
    def n_active(self) -> int:
        """Active states of all MDPs together: the token of the first unvisited state."""
        return len(self.active)


def _token(state: Ints, active: Ints) -> Ints:
    """(n,) position of each state among the sorted `active` ones, −1 where it is not one of them."""
    if len(active) == 0:
        return np.full(len(state), -1)
    position = np.minimum(np.searchsorted(active, state), len(active) - 1)
    return np.where(active[position] == state, position, -1)
