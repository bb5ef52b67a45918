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
from mdpfn.estimates import estimate
from mdpfn.layout import Layout
from mdpfn.network.features import Features, plain_features, planned_features
from mdpfn.statistics import StatisticsBatch
from mdpfn.told import Told

TRIED, UNTRIED, UNKNOWN = range(3)


@dataclass(frozen=True, eq=False)
class Tokens:
    """Everything a forward pass reads. Token orders:

    - states: active ones (some pair visited), then one blank state per MDP;
    - pairs: settled ones, then attending ones, the last of which are one blank pair per MDP;
    - rows of the readout: visited pairs as tokens, then a blank action of each state token.
    """

    pair_features: Tensor  # (pairs, ·) log(1 + N), normalized r̂, and what planners make of them
    state_features: Tensor  # (states, ·) nothing in the paper
    row_features: Tensor  # (rows, ·) nothing in the paper
    settled_successor: Tensor  # (settled,) state token of the only successor
    pair_state: Tensor  # (pairs − B,) state token a visited pair belongs to; a blank pair has no single one
    edge_pair: Tensor  # (edges,) attending pair, counted from the first attending one …
    edge_state: Tensor  # (edges,) … and a state token it attends to
    edge_log_prob: Tensor  # (edges,) log P̂(s' | s, a)
    edge_log_multiplicity: Tensor  # (edges,) log of how many states the state token stands for
    state_mdp: Tensor  # (states,) MDP of each state token
    visited_weight: Tensor  # (states,) 1 / |A|: weight of a visited pair in the mean over actions
    blank_weight: Tensor  # (states,) share of never visited actions, the weight of the blank pair
    pair_action: Tensor  # (pairs − B,) action token a visited pair belongs to: one per action of every MDP
    action_weight: Tensor  # (pairs − B,) weight of a visited pair in the mean over an action; 0 in terminal states
    action_features: Tensor  # (actions, 1) log(1 + states in which it was tried)
    logit_row: Tensor  # (pairs,) for every pair of every MDP, the row of the readout that holds its logit, …
    logit_action: Tensor  # (pairs,) … its action token …
    logit_kind: Tensor  # (pairs,) … and whether it is TRIED, UNTRIED in a known state, or UNKNOWN like its state
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


def pack(z: StatisticsBatch, told: Told | None = None) -> Tokens:
    """The tokens of a batch of statistics: the paper's, or with `told` those of a network that reads plans."""
    layout = Layout.of(z)
    if told is None:
        return assemble(z, layout, plain_features(z, layout))
    return assemble(z, layout, planned_features(z, layout, told, estimate(z, told, layout)))


def assemble(z: StatisticsBatch, layout: Layout, features: Features) -> Tokens:
    """The tokens with these features."""
    settled = z.n_successors == 1
    order = np.concatenate([np.flatnonzero(settled), np.flatnonzero(~settled)])  # visited pairs as tokens
    n_attending = len(z.pair) - int(settled.sum())  # visited ones; the blank pair of MDP m follows as n_attending + m
    rows_of_visited = features.row[: len(z.pair)][order]

    # A blank pair attends uniformly to all states of its MDP: the active ones, and the blank token for the rest.
    observed = ~settled[z.transition_row]
    with_blank = np.flatnonzero(layout.n_blank_states > 0)
    attending_token = np.cumsum(~settled) - 1
    edge_pair = [attending_token[z.transition_row[observed]], n_attending + layout.active_mdp, n_attending + with_blank]
    edge_state = [layout.successor[observed], np.arange(layout.n_active), layout.n_active + with_blank]
    log_uniform = -np.log(z.n_states)
    edge_log_prob = [np.log(z.successor_probs[observed]), log_uniform[layout.active_mdp], log_uniform[with_blank]]
    edge_log_multiplicity = np.zeros(sum(len(e) for e in edge_pair))
    edge_log_multiplicity[-len(with_blank) or len(edge_log_multiplicity) :] = np.log(layout.n_blank_states[with_blank])

    state_actions = z.n_actions[layout.state_mdp]
    first_action = offsets_of(z.n_actions)
    pair_action = first_action[z.pair_mdp] + z.pair % z.n_actions[z.pair_mdp]
    counts = ~layout.is_terminal(z)[layout.visited_state]
    n_tried = np.bincount(pair_action, weights=counts, minlength=first_action[-1])
    logit_row = _logit_rows(z, order, layout)
    blank_row = len(z.pair) + layout.n_active  # the first one of a blank state
    return Tokens(
        pair_features=_floats(np.concatenate([features.pair[: len(z.pair)][order], features.pair[len(z.pair) :]])),
        state_features=_floats(features.state),
        row_features=_floats(np.concatenate([rows_of_visited, features.row[len(z.pair) :]])),
        settled_successor=_ints(layout.successor[~observed]),
        pair_state=_ints(layout.visited_state[order]),
        edge_pair=_ints(np.concatenate(edge_pair)),
        edge_state=_ints(np.concatenate(edge_state)),
        edge_log_prob=_floats(np.concatenate(edge_log_prob)),
        edge_log_multiplicity=_floats(edge_log_multiplicity),
        state_mdp=_ints(layout.state_mdp),
        visited_weight=_floats(1 / state_actions),
        blank_weight=_floats(layout.n_blank_actions / state_actions),
        pair_action=_ints(pair_action[order]),
        action_weight=_floats((counts / np.maximum(n_tried, 1)[pair_action])[order]),
        action_features=_floats(np.log1p(n_tried)[:, None]),
        logit_row=_ints(logit_row),
        logit_action=_ints(_actions_of_pairs(z)),
        logit_kind=_ints((logit_row >= len(z.pair)).astype(np.int64) + (logit_row >= blank_row)),
        n_states=z.n_states,
        n_actions=z.n_actions,
    )


def _logit_rows(z: StatisticsBatch, order: Ints, layout: Layout) -> Ints:
    """(pairs,) readout row of every pair: the visited ones as tokens, then a blank action of each state token."""
    n_visited = len(z.pair)
    pair_start = offsets_of(z.n_states * z.n_actions)
    rows = np.repeat(n_visited + layout.n_active + np.arange(len(z)), z.n_states * z.n_actions)
    n_actions = z.n_actions[layout.active_mdp]
    first = pair_start[layout.active_mdp] + layout.active * n_actions
    for action in range(int(n_actions.max(initial=0))):
        has = action < n_actions
        rows[first[has] + action] = n_visited + np.flatnonzero(has)
    rows[(pair_start[z.pair_mdp] + z.pair)[order]] = np.arange(n_visited)
    return rows


def _actions_of_pairs(z: StatisticsBatch) -> Ints:
    """(pairs,) action token of every pair."""
    n_pairs = z.n_states * z.n_actions
    mdp = np.repeat(np.arange(len(z)), n_pairs)
    place = np.arange(len(mdp)) - offsets_of(n_pairs)[mdp]
    actions: Ints = offsets_of(z.n_actions)[mdp] + place % z.n_actions[mdp]
    return actions


def _floats(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64))


def _ints(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64))
