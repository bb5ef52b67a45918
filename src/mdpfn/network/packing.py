"""From statistics to the tokens the network computes on: the one feature builder of training and use (A.3).

Three exact facts keep the tokens few, whatever |S| and |A|:

- nothing is padded: tokens of all MDPs of a batch lie in one matrix;
- all pairs of an MDP that were never visited have the same features and the same uniform row, so they
  carry the same embedding at every depth: one *unvisited pair* token stands for them. So does one *unvisited
  state* token for all states none of whose pairs was visited;
- a visited pair with a single observed successor puts its whole attention on it: such *single-successor* pairs
  need no query and no softmax, the others are *attending*.
"""

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from mdpfn.arrays import Floats, Ints, offsets_of, ranges_of
from mdpfn.evidence.layout import Layout
from mdpfn.evidence.table import PairTable, of_structure
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.network.features import Features, plain_features, planned_features
from mdpfn.planners.classical import estimate
from mdpfn.planners.problem_info import ProblemInfo

TRIED, UNTRIED, UNKNOWN = range(3)
Array = TypeVar("Array")  # of NumPy as they are packed and used, of torch in training


@dataclass(frozen=True, eq=False)
class Tokens(Generic[Array]):
    """Everything a forward pass reads. Token orders:

    - states: active ones (some pair visited), then one unvisited state per MDP;
    - pairs: single-successor ones, then attending ones, the last of which are one unvisited pair per MDP;
    - rows of the readout: visited pairs as tokens, then an unvisited action of each state token.
    """

    pair_features: Array  # (pairs, ·) log(1 + N), normalized r̂, and what planners make of them
    state_features: Array  # (states, ·) nothing in the paper
    row_features: Array  # (rows, ·) nothing in the paper
    single_successor: Array  # (single,) state token of the only successor
    pair_state: Array  # (pairs − B,) state token a visited pair belongs to; an unvisited pair has no single one
    edge_pair: Array  # (edges,) attending pair, ascending, counted from the first attending one …
    edge_state: Array  # (edges,) … and a state token it attends to
    edge_log_prob: Array  # (edges,) log P̂(s' | s, a)
    edge_log_multiplicity: Array  # (edges,) log of how many states the state token stands for
    state_mdp: Array  # (states,) MDP of each state token
    visited_weight: Array  # (states,) 1 / |A|: weight of a visited pair in the mean over actions
    unvisited_weight: Array  # (states,) share of never visited actions, the weight of the unvisited pair
    pair_action: Array  # (pairs − B,) action token a visited pair belongs to: one per action of every MDP
    action_weight: Array  # (pairs − B,) weight of a visited pair in the mean over an action; 0 in terminal states
    action_features: Array  # (actions, 1) log(1 + states in which it was tried)
    logit_row: Array  # (pairs,) for every pair of every MDP, the row of the readout that holds its logit, …
    logit_action: Array  # (pairs,) … its action token …
    logit_kind: Array  # (pairs,) … and whether it is TRIED, UNTRIED in a known state, or UNKNOWN like its state
    n_states: Ints  # (B,)
    n_actions: Ints  # (B,)


class Answer(NamedTuple, Generic[Array]):
    """The outputs of the network for every pair of every MDP, in order of MDP, state and action."""

    policy_logits: Array  # (pairs,) u(s, a)
    q_quantiles: Array  # (pairs, levels) quantiles of asinh(Q*(s, a) / reward scale), in rising order


def pack(model: EmpiricalModel, info: ProblemInfo | None = None, most_visits: float = np.inf) -> Tokens[np.ndarray]:
    """The tokens of a batch of problems: the paper's, or with `info` those of a network that reads plans."""
    if info is None:
        return assemble(model, plain_features(model, most_visits))
    return assemble(model, planned_features(info, estimate(model, info)))


def assemble(model: EmpiricalModel, features: Features) -> Tokens[np.ndarray]:
    """The tokens with these features."""
    z, fixed = model.table, _fixed(model.table)
    return Tokens(
        pair_features=features.pair.take(fixed.pair, axis=0),
        state_features=features.state,
        row_features=features.row.take(fixed.row, axis=0),
        edge_log_prob=np.concatenate([np.log(z.successor_probs), fixed.log_uniform]).take(fixed.edge),
        **fixed.arrays,
    )


class _Fixed(NamedTuple):
    """What all tables of a structure have in common as tokens."""

    pair: Ints  # features of pairs in the order of tokens
    row: Ints  # features of rows of the readout in their order
    edge: Ints  # of an edge the observed transition, or behind these the MDP in which all states are as likely: …
    log_uniform: Floats  # (B,) … log of that probability
    arrays: dict[str, np.ndarray]  # fields of `Tokens`


@of_structure
def _fixed(z: PairTable) -> _Fixed:
    """All of the tokens that does not depend on numbers."""
    layout, n_visited = Layout.of(z), len(z.pair)
    single = z.n_successors == 1
    order = np.concatenate([np.flatnonzero(single), np.flatnonzero(~single)])  # visited pairs as tokens
    n_attending = n_visited - int(single.sum())  # visited ones; the unvisited pair of MDP m is n_attending + m

    # An unvisited pair attends uniformly to all states of its MDP: the active ones, and one token for the rest.
    is_edge = ~single[z.transition_row]
    observed = np.flatnonzero(is_edge)
    has_more = np.flatnonzero(layout.n_unvisited_states > 0)
    attending_token = np.cumsum(~single) - 1
    edge_pair = np.concatenate(
        [attending_token[z.transition_row[observed]], n_attending + layout.active_mdp, n_attending + has_more]
    )
    by_pair = np.argsort(edge_pair, kind="stable")
    edge_state = np.concatenate([layout.successor[observed], np.arange(layout.n_active), layout.n_active + has_more])
    edge = np.concatenate([observed, len(z.successor) + layout.active_mdp, len(z.successor) + has_more])
    edge_log_multiplicity = np.zeros(len(edge_pair))
    edge_log_multiplicity[len(edge_pair) - len(has_more) :] = np.log(layout.n_unvisited_states[has_more])

    state_actions = z.n_actions[layout.state_mdp]
    first_action = offsets_of(z.n_actions)
    pair_action = first_action[z.pair_mdp] + z.action
    counts = layout.goes_on
    n_tried = np.bincount(pair_action, weights=counts, minlength=first_action[-1])
    logit_row = _logit_rows(z, order, layout)
    unvisited_row = n_visited + layout.n_active  # the first one of an unvisited state
    arrays = {
        "single_successor": layout.successor[~is_edge],
        "pair_state": layout.visited_state[order],
        "edge_pair": edge_pair[by_pair],
        "edge_state": edge_state[by_pair],
        "edge_log_multiplicity": edge_log_multiplicity[by_pair],
        "state_mdp": layout.state_mdp,
        "visited_weight": 1 / state_actions,
        "unvisited_weight": layout.n_unvisited_actions / state_actions,
        "pair_action": pair_action[order],
        "action_weight": (counts / np.maximum(n_tried, 1)[pair_action])[order],
        "action_features": np.log1p(n_tried)[:, None],
        "logit_row": logit_row,
        "logit_action": _actions_of_pairs(z),
        "logit_kind": (logit_row >= n_visited).astype(np.int64) + (logit_row >= unvisited_row),
        "n_states": z.n_states,
        "n_actions": z.n_actions,
    }
    return _Fixed(
        pair=np.append(order, n_visited + np.arange(len(z))),
        row=np.append(order, n_visited + np.arange(len(layout.state_mdp))),
        edge=edge[by_pair],
        log_uniform=-np.log(z.n_states),
        arrays=arrays,
    )


def _logit_rows(z: PairTable, order: Ints, layout: Layout) -> Ints:
    """(pairs,) readout row of every pair: the visited ones as tokens, then an unvisited action of each state token."""
    n_visited = len(z.pair)
    pair_start = offsets_of(z.n_states * z.n_actions)
    rows = np.repeat(n_visited + layout.n_active + np.arange(len(z)), z.n_states * z.n_actions)
    n_actions = z.n_actions[layout.active_mdp]
    first = pair_start[layout.active_mdp] + layout.active * n_actions
    rows[ranges_of(first, n_actions)] = n_visited + np.repeat(np.arange(layout.n_active), n_actions)
    rows[(pair_start[z.pair_mdp] + z.pair)[order]] = np.arange(n_visited)
    return rows


def _actions_of_pairs(z: PairTable) -> Ints:
    """(pairs,) action token of every pair."""
    n_pairs = z.n_states * z.n_actions
    mdp = np.repeat(np.arange(len(z)), n_pairs)
    place = np.arange(len(mdp)) - offsets_of(n_pairs)[mdp]
    return offsets_of(z.n_actions)[mdp] + place % z.n_actions[mdp]
