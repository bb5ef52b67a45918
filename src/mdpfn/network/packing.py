"""From statistics to the tokens the network computes on: the one feature builder of training and use (A.3).

Three exact facts keep the tokens few, whatever |S| and |A|:

- nothing is padded: tokens of all MDPs of a batch lie in one matrix;
- all pairs of an MDP that were never visited have the same features and the same uniform row, so they
  carry the same embedding at every depth: one *blank pair* token stands for them. So does one *blank
  state* token for all states none of whose pairs was visited;
- a visited pair with a single observed successor puts its whole attention on it: such *settled* pairs
  need no query and no softmax, the others are *attending*.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from mdpfn.arrays import Ints, offsets_of
from mdpfn.statistics import StatisticsBatch

N_PAIR_FEATURES = 2  # log(1 + N), normalized r̂


@dataclass(frozen=True, eq=False)
class Tokens:
    """Everything a forward pass reads. Token orders:

    - states: active ones (some pair visited), then one blank state per MDP;
    - pairs: settled ones, then attending ones, the last of which are one blank pair per MDP.
    """

    pair_features: Tensor  # (pairs, 2) log(1 + N), normalized r̂
    settled_successor: Tensor  # (settled,) state token of the only successor
    pair_state: Tensor  # (pairs − B,) state token a visited pair belongs to; a blank pair has no single one
    edge_pair: Tensor  # (edges,) attending pair, counted from the first attending one …
    edge_state: Tensor  # (edges,) … and a state token it attends to
    edge_log_prob: Tensor  # (edges,) log P̂(s' | s, a)
    edge_log_multiplicity: Tensor  # (edges,) log of how many states the state token stands for
    state_mdp: Tensor  # (states,) MDP of each state token
    visited_weight: Tensor  # (states,) 1 / |A|: weight of a visited pair in the mean over actions
    blank_weight: Tensor  # (states,) share of never visited actions, the weight of the blank pair
    logit_row: Tensor  # (pairs,) for every pair of every MDP, the row of the readout that holds its logit
    n_states: Ints  # (B,)
    n_actions: Ints  # (B,)

    def to(self, dtype: torch.dtype, device: torch.device | str = "cpu") -> Tokens:
        """The same with features of another float type, on another device."""
        moved = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                value = value.to(device, dtype if value.is_floating_point() else None)
            moved[field.name] = value
        return Tokens(**moved)


def pack(z: StatisticsBatch) -> Tokens:
    """The tokens of a batch of statistics."""
    n_mdps = len(z)
    state_start = offsets_of(z.n_states)
    actions = z.n_actions[z.pair_mdp]

    active, visited_state = np.unique(state_start[z.pair_mdp] + z.pair // actions, return_inverse=True)
    active_mdp = np.searchsorted(state_start, active, side="right") - 1
    state_mdp = np.concatenate([active_mdp, np.arange(n_mdps)])
    state_actions = z.n_actions[state_mdp]
    n_blank_actions = state_actions - np.bincount(visited_state, minlength=len(state_mdp))
    n_blank_states = z.n_states - np.bincount(active_mdp, minlength=n_mdps)
    successor = _state_token(state_start[z.pair_mdp[z.transition_row]] + z.successor, active)
    is_blank = successor < 0
    successor[is_blank] = len(active) + z.pair_mdp[z.transition_row[is_blank]]

    settled = z.n_successors == 1
    order = np.concatenate([np.flatnonzero(settled), np.flatnonzero(~settled)])  # visited pairs as tokens
    n_settled = int(settled.sum())
    n_attending = len(z.pair) - n_settled  # visited ones; the blank pair of MDP m follows as n_attending + m
    features = np.zeros((len(z.pair) + n_mdps, N_PAIR_FEATURES))
    features[: len(z.pair)] = np.stack([np.log1p(z.n_visits), z.normalized_reward], axis=1)[order]

    # A blank pair attends uniformly to all states of its MDP: the active ones, and the blank token for the rest.
    observed = ~settled[z.transition_row]
    with_blank = np.flatnonzero(n_blank_states > 0)
    attending_token = np.cumsum(~settled) - 1
    edge_pair = [attending_token[z.transition_row[observed]], n_attending + active_mdp, n_attending + with_blank]
    edge_state = [successor[observed], np.arange(len(active)), len(active) + with_blank]
    log_uniform = -np.log(z.n_states)
    edge_log_prob = [np.log(z.successor_probs[observed]), log_uniform[active_mdp], log_uniform[with_blank]]
    edge_log_multiplicity = np.zeros(sum(len(e) for e in edge_pair))
    edge_log_multiplicity[-len(with_blank) or len(edge_log_multiplicity) :] = np.log(n_blank_states[with_blank])

    return Tokens(
        pair_features=_floats(features),
        settled_successor=_ints(successor[~observed]),
        pair_state=_ints(visited_state[order]),
        edge_pair=_ints(np.concatenate(edge_pair)),
        edge_state=_ints(np.concatenate(edge_state)),
        edge_log_prob=_floats(np.concatenate(edge_log_prob)),
        edge_log_multiplicity=_floats(edge_log_multiplicity),
        state_mdp=_ints(state_mdp),
        visited_weight=_floats(1 / state_actions),
        blank_weight=_floats(n_blank_actions / state_actions),
        logit_row=_ints(_logit_rows(z, order, active - state_start[active_mdp], active_mdp)),
        n_states=z.n_states,
        n_actions=z.n_actions,
    )


def _state_token(state: Ints, active: Ints) -> Ints:
    """(n,) position of each state among the sorted `active` ones, −1 where it is not one of them."""
    if len(active) == 0:
        return np.full(len(state), -1)
    position = np.minimum(np.searchsorted(active, state), len(active) - 1)
    return np.where(active[position] == state, position, -1)


def _logit_rows(z: StatisticsBatch, order: Ints, active: Ints, active_mdp: Ints) -> Ints:
    """(pairs,) readout row of every pair: the visited ones as tokens, then a blank action of each state token."""
    n_visited, n_active = len(z.pair), len(active)
    pair_start = offsets_of(z.n_states * z.n_actions)
    rows = np.repeat(n_visited + n_active + np.arange(len(z)), z.n_states * z.n_actions)
    n_actions = z.n_actions[active_mdp]
    first = pair_start[active_mdp] + active * n_actions
    for action in range(int(n_actions.max(initial=0))):
        has = action < n_actions
        rows[first[has] + action] = n_visited + np.flatnonzero(has)
    rows[(pair_start[z.pair_mdp] + z.pair)[order]] = np.arange(n_visited)
    return rows


def _floats(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64))


def _ints(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64))
