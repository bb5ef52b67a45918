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
    - settled pairs;
    - attending pairs: visited ones, then one blank pair per MDP.
    """

    settled_features: Tensor  # (settled, 2)
    attending_features: Tensor  # (attending, 2)
    settled_successor: Tensor  # (settled,) state token of the only successor
    settled_state: Tensor  # (settled,) state token the pair belongs to
    attending_state: Tensor  # (attending − B,) the same; a blank pair belongs to no single state
    edge_pair: Tensor  # (edges,) attending pair token …
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
    attending_visited = np.flatnonzero(~settled)
    n_attending = len(attending_visited)
    features = np.stack([np.log1p(z.n_visits), z.normalized_reward], axis=1)
    attending_token = np.cumsum(~settled) - 1
    in_attending = ~settled[z.transition_row]

    # A blank pair attends uniformly to all states of its MDP: the active ones, and the blank token for the rest.
    has_blank_states = np.flatnonzero(n_blank_states > 0)
    edge_pair = [attending_token[z.transition_row[in_attending]], n_attending + active_mdp, n_attending + has_blank_states]
    edge_state = [successor[in_attending], np.arange(len(active)), len(active) + has_blank_states]
    log_uniform = -np.log(z.n_states)
    edge_log_prob = [np.log(z.successor_probs[in_attending]), log_uniform[active_mdp], log_uniform[has_blank_states]]
    log_multiplicity = np.concatenate([np.zeros(int(in_attending.sum()) + len(active)), np.log(n_blank_states[has_blank_states])])

    return Tokens(
        settled_features=_floats(features[settled]),
        attending_features=_floats(np.concatenate([features[attending_visited], np.zeros((n_mdps, N_PAIR_FEATURES))])),
        settled_successor=_ints(successor[settled[z.transition_row]]),
        settled_state=_ints(visited_state[settled]),
        attending_state=_ints(visited_state[attending_visited]),
        edge_pair=_ints(np.concatenate(edge_pair)),
        edge_state=_ints(np.concatenate(edge_state)),
        edge_log_prob=_floats(np.concatenate(edge_log_prob)),
        edge_log_multiplicity=_floats(log_multiplicity),
        state_mdp=_ints(state_mdp),
        visited_weight=_floats(1 / state_actions),
        blank_weight=_floats(n_blank_actions / state_actions),
        logit_row=_ints(_logit_rows(z, active - state_start[active_mdp], active_mdp, settled)),
        n_states=z.n_states,
        n_actions=z.n_actions,
    )


def _state_token(state: Ints, active: Ints) -> Ints:
    """(n,) position of each state among the sorted `active` ones, −1 where it is not one of them."""
    if len(active) == 0:
        return np.full(len(state), -1)
    position = np.minimum(np.searchsorted(active, state), len(active) - 1)
    return np.where(active[position] == state, position, -1)


def _logit_rows(z: StatisticsBatch, active: Ints, active_mdp: Ints, settled: np.ndarray) -> Ints:
    """(pairs,) readout row of every pair: settled, attending, then a blank action of each state token."""
    n_visited, n_active = len(z.pair), len(active)
    pair_start = offsets_of(z.n_states * z.n_actions)
    blank_state_row = n_visited + n_active + np.arange(len(z))
    rows = np.repeat(blank_state_row, z.n_states * z.n_actions)
    width = z.n_actions[active_mdp]
    first = pair_start[active_mdp] + active * width
    for action in range(int(width.max(initial=0))):
        has = action < width
        rows[first[has] + action] = (n_visited + np.arange(n_active))[has]
    visited_row = np.where(settled, np.cumsum(settled) - 1, settled.sum() + np.cumsum(~settled) - 1)
    rows[pair_start[z.pair_mdp] + z.pair] = visited_row
    return rows


def _floats(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64))


def _ints(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64))
