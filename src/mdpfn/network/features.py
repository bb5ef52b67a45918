"""The input features of the network for every pair and every state.

Features of a pair that was never visited must not depend on its state: one token stands for all of them. What
differs from state to state, such as the advantage of such a pair, is a feature of the row the policy is read from.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints, sums_by
from mdpfn.evidence.table import PairTable
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.planners.classical import CERTAINTY_EQUIVALENT, N_PLANNERS, OPTIMISTIC, PESSIMISTIC, Estimates
from mdpfn.planners.problem_info import ProblemInfo

Inputs: TypeAlias = Literal["plain", "planned"]

N_OUTCOMES = 3  # numbers about where a pair leads
N_KNOWN = 16  # numbers about a whole problem
PLAIN = (2, 0, 0)  # how many features a pair, a state and a row of the readout have in the paper …
PLANNED = (3 + N_OUTCOMES + 2 * N_PLANNERS + N_KNOWN, 2 * N_PLANNERS + 2, 3 * N_PLANNERS + 3)  # … and with plans
CERTAINTY_EQUIVALENT_VALUE = CERTAINTY_EQUIVALENT  # the row feature that is the certainty-equivalent value …
DOUBT = -1  # … and how little it is to be trusted.
# Those that are its advantages or say that a pair was never tried, with the logit they make.
POLICY_SKIP = {N_PLANNERS: 1.0, 2 * N_PLANNERS: 2.0, 3 * N_PLANNERS: -4.0}
ADVANTAGE_UNIT = 0.05  # of the reward scale: below it advantages are told apart linearly, above it by orders
SMALLEST_ERROR = 1e-6  # of the reward scale; less is rounding
DOUBT_UNIT = 0.5  # of asinh Q: optimists and pessimists that are further apart leave much in doubt


@dataclass(frozen=True, eq=False)
class Features:
    """Features of all tokens: visited pairs in the order of the table, then unvisited ones."""

    pair: Floats  # (visited + B, ·), the unvisited pairs last
    state: Floats  # (states, ·)
    row: Floats  # (visited + states, ·): of a visited pair, or of an unvisited action of each state token


def plain_features(model: EmpiricalModel) -> Features:
    """The paper's: log(1 + N) and normalized r̂ of every pair, both 0 where it was never visited (A.3)."""
    z = model.table
    n_visited, n_states = len(z.pair), len(model.layout.state_mdp)
    pair = np.zeros((n_visited + len(z), 2))
    pair[:n_visited] = np.stack([np.log1p(z.n_visits), z.normalized_reward], axis=1)
    return Features(pair, np.zeros((n_states, 0)), np.zeros((n_visited + n_states, 0)))


def planned_features(info: ProblemInfo, estimates: Estimates) -> Features:
    """The paper's features, and the plans of classical planners, which the network only has to correct.

    Values are those of rewards divided by their scale; asinh lets them range over orders of magnitude.
    """
    model = estimates.model
    z, layout = model.table, model.layout
    shrink = (1 - info.discount)[:, None]
    outcomes = _outcomes(z)
    known = np.concatenate([_known_before(z, info), _seen(model, outcomes)], axis=1)
    unvisited = np.arange(len(z))
    pair_mdp = np.concatenate([z.pair_mdp, unvisited])
    q = np.concatenate([estimates.q, estimates.unvisited_q])
    error = _standard_errors(info, estimates)
    pair = np.concatenate(
        [
            plain_features(model).pair,
            np.concatenate([outcomes, np.zeros((len(z), N_OUTCOMES))]),
            np.arcsinh(q),
            shrink[pair_mdp] * q,
            known[pair_mdp],
            np.append(np.arcsinh(error / ADVANTAGE_UNIT), np.zeros(len(z)))[:, None],
        ],
        axis=1,
    )

    mdp = layout.state_mdp
    is_unvisited = np.zeros(len(mdp))
    is_unvisited[layout.n_active :] = 1.0
    open_actions = layout.n_unvisited_actions / z.n_actions[mdp]
    value = estimates.value
    state = np.concatenate(
        [np.arcsinh(value), shrink[mdp] * value, open_actions[:, None], is_unvisited[:, None]], axis=1
    )
    return Features(pair, state, _row_features(estimates, error))


def _standard_errors(info: ProblemInfo, estimates: Estimates) -> Floats:
    """(visited,) how far chance may have moved certainty-equivalent Q by where this pair happened to lead.

    Beside what was seen, one outcome counts that is as far off as those of other pairs are: few visits prove little.
    """
    z, layout = estimates.model.table, estimates.model.layout
    row, n, n_mdps = z.transition_row, len(z.pair), len(z)
    discount = estimates.model.discount(info.discount)
    future = discount[row] * estimates.value[layout.successor, CERTAINTY_EQUIVALENT]
    mean = sums_by(row, z.successor_probs * future, n)
    variance = sums_by(row, z.successor_probs * (future - mean[row]) ** 2, n)
    q, n_pairs = estimates.q[:, CERTAINTY_EQUIVALENT], np.maximum(np.bincount(z.pair_mdp, minlength=n_mdps), 1)
    centre = sums_by(z.pair_mdp, q, n_mdps) / n_pairs
    action_pooling = sums_by(z.pair_mdp, (q - centre[z.pair_mdp]) ** 2, n_mdps) / n_pairs
    visits = z.n_visits
    return np.sqrt((visits * variance + action_pooling[z.pair_mdp]) / (visits * (visits + 1)))


def _row_features(estimates: Estimates, error: Floats) -> Floats:
    """asinh Q, asinh of the advantage, the advantage as a part of the largest one of its MDP, whether the pair was
    never visited, asinh of the certainty-equivalent advantage in standard errors, and how far the optimistic plan is
    from the pessimistic one.
    """
    z, layout = estimates.model.table, estimates.model.layout
    n_visited = len(z.pair)
    state = np.concatenate([layout.visited_state, np.arange(len(layout.state_mdp))])
    mdp, value = layout.state_mdp[state], estimates.value[state]
    q = np.concatenate([estimates.q, np.minimum(estimates.unvisited_q[layout.state_mdp], estimates.value)])
    advantage = np.minimum(q - value, 0.0)  # above 0 by rounding only
    largest = np.zeros((len(z), N_PLANNERS))
    np.maximum.at(largest, mdp[:n_visited], -advantage[:n_visited])
    relative = np.maximum(advantage / np.maximum(largest[mdp], 1e-6), -2.0)
    unvisited = np.arange(len(state)) >= n_visited
    n_tried = np.bincount(layout.visited_state, minlength=len(value))
    usual = sums_by(layout.visited_state, error**2, len(value)) / np.maximum(n_tried, 1)
    deviation = np.sqrt(error**2 + usual[layout.visited_state] + SMALLEST_ERROR**2)
    in_errors = np.zeros(len(state))
    in_errors[:n_visited] = np.arcsinh(advantage[:n_visited, CERTAINTY_EQUIVALENT] / deviation)
    asinh_q = np.arcsinh(q)
    gap = np.maximum(asinh_q[:, OPTIMISTIC] - asinh_q[:, PESSIMISTIC], 0.0)
    return np.concatenate(
        [
            asinh_q,
            np.arcsinh(advantage / ADVANTAGE_UNIT),
            relative,
            np.stack([unvisited, in_errors, gap / (gap + DOUBT_UNIT)], axis=1),
        ],
        axis=1,
    )


def _outcomes(z: PairTable) -> Floats:
    """(visited, N_OUTCOMES) log of how many successors were seen, and the shares that stayed and that terminated.

    Attention averages over successors: it tells neither how many there are nor whether one is the state itself.
    """
    row = z.transition_row
    stays = z.successor == z.state[row]
    ended = z.n_terminated / z.n_visits[row]
    n = len(z.pair)
    return np.stack(
        [np.log(z.n_successors), sums_by(row, z.successor_probs * stays, n), sums_by(row, ended, n)], axis=1
    )


def _known_before(z: PairTable, info: ProblemInfo) -> Floats:
    """(B, 6) about each problem, before anything is seen of it: horizon, reward range, sizes."""
    has_range = np.isfinite(info.reward_high)
    low = np.where(has_range, info.reward_low, 0.0) / z.reward_scale
    high = np.where(has_range, info.reward_high, 0.0) / z.reward_scale
    horizon = np.log10(1 / (1 - info.discount)) - 1
    return np.stack([horizon, has_range, low, high, np.log(z.n_states) / 4, np.log(z.n_actions) / 2], axis=1)


def _seen(model: EmpiricalModel, outcomes: Floats) -> Floats:
    """(B, 10) statistics over the visited pairs of each problem, which may hold for unvisited pairs too.

    How much was seen; whether the same action leads to the same state again; where pairs lead; rewards. The loops that
    stand for terminal states are nothing that was seen.
    """
    z, goes_on = model.table, model.goes_on
    mdp, n = z.pair_mdp[goes_on], len(z)
    visits, single, reward = z.n_visits[goes_on], z.n_successors[goes_on] == 1, z.normalized_reward[goes_on]
    variety, stays, ends = outcomes[goes_on].T
    n_pairs = z.n_states * z.n_actions
    lowest, highest = np.zeros(n), np.zeros(n)
    np.minimum.at(lowest, mdp, reward)
    np.maximum.at(highest, mdp, reward)

    n_seen, twice = np.bincount(mdp, minlength=n), visits > 1
    n_twice = sums_by(mdp, twice, n)

    def mean(of_pairs: Floats | Bools, among: Ints | Floats = n_seen) -> Floats:
        return sums_by(mdp, of_pairs, n) / np.maximum(among, 1)

    return np.stack(
        [
            n_seen / n_pairs,
            np.log1p(sums_by(mdp, visits, n) / n_pairs),
            mean(twice),
            mean(single & twice, among=n_twice),
            mean(variety * twice, among=n_twice),
            mean(stays),
            mean(ends),
            mean(reward != 0),
            lowest,
            highest,
        ],
        axis=1,
    )
