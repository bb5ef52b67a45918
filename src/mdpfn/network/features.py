"""The input features of the network for every pair and every state.

Features of a pair that was never visited must not depend on its state: one token stands for all of them. What
differs from state to state, such as the advantage of such a pair, is a feature of the row the policy is read from.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from mdpfn.arrays import Bools, Floats, sums_by
from mdpfn.evidence.layout import Layout
from mdpfn.evidence.table import PairTable, of_structure
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


def plain_features(model: EmpiricalModel, most_visits: float = np.inf) -> Features:
    """The paper's: log(1 + N) and normalized r̂ of every pair, both 0 where it was never visited (A.3).

    More visits than a network met in training count as the most it met.
    """
    z = model.table
    n_visited, n_states = len(z.pair), len(model.layout.state_mdp)
    pair = np.zeros((n_visited + len(z), 2))
    pair[:n_visited] = np.stack([np.log1p(np.minimum(z.n_visits, most_visits)), z.normalized_reward], axis=1)
    return Features(pair, np.zeros((n_states, 0)), np.zeros((n_visited + n_states, 0)))


def planned_features(info: ProblemInfo, estimates: Estimates) -> Features:
    """The paper's features, and the plans of classical planners, which the network only has to correct.

    Values are those of rewards divided by their scale; asinh lets them range over orders of magnitude.
    """
    model = estimates.model
    z, mdp, value, unvisited_q = model.table, model.layout.state_mdp, estimates.value, estimates.unvisited_q
    shrink = (1 - info.discount)[:, None]
    outcomes, error = _outcomes(z), _standard_errors(info, estimates)
    known = np.concatenate([_known_before(z, info), _seen(model, outcomes)], axis=1)
    visited = [
        np.log1p(z.n_visits)[:, None],
        z.normalized_reward[:, None],
        outcomes,
        np.arcsinh(estimates.q),
        shrink[z.pair_mdp] * estimates.q,
        known[z.pair_mdp],
        np.arcsinh(error / ADVANTAGE_UNIT)[:, None],
    ]
    nothing = np.zeros((len(z), 2 + N_OUTCOMES))
    unvisited = [nothing, np.arcsinh(unvisited_q), shrink * unvisited_q, known, nothing[:, :1]]
    pair = np.concatenate([np.concatenate(visited, axis=1), np.concatenate(unvisited, axis=1)])
    state = np.concatenate([np.arcsinh(value), shrink[mdp] * value, _openness(z)], axis=1)
    return Features(pair, state, _row_features(estimates, error))


@of_structure
def _openness(z: PairTable) -> Floats:
    """(states, 2) the share of actions of a state token that were never taken, and whether it is the unvisited one."""
    layout = Layout.of(z)
    is_unvisited = np.arange(len(layout.state_mdp)) >= layout.n_active
    return np.stack([layout.n_unvisited_actions / z.n_actions[layout.state_mdp], is_unvisited], axis=1)


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
    usual_variance = sums_by(z.pair_mdp, (q - centre[z.pair_mdp]) ** 2, n_mdps) / n_pairs
    visits = z.n_visits
    return np.sqrt((visits * variance + usual_variance[z.pair_mdp]) / (visits * (visits + 1)))


def _row_features(estimates: Estimates, error: Floats) -> Floats:
    """asinh Q, asinh of the advantage, the advantage as a part of the largest one of its MDP, whether the pair was
    never visited, asinh of the certainty-equivalent advantage in standard errors, and how far the optimistic plan is
    from the pessimistic one.
    """
    z, layout = estimates.model.table, estimates.model.layout
    n_visited = len(z.pair)
    state = np.append(layout.visited_state, np.arange(len(layout.state_mdp)))
    mdp, value = layout.state_mdp.take(state), estimates.value.take(state, axis=0)
    unvisited_q = estimates.unvisited_q.take(layout.state_mdp, axis=0)
    q = np.concatenate([estimates.q, np.minimum(unvisited_q, estimates.value)])
    advantage = np.minimum(q - value, 0.0)  # above 0 by rounding only
    largest = np.full((len(z), N_PLANNERS), 1e-6)
    planner_of_mdp = z.pair_mdp[:, None] * N_PLANNERS + np.arange(N_PLANNERS)
    np.maximum.at(largest.reshape(-1), planner_of_mdp.reshape(-1), -advantage[:n_visited].reshape(-1))
    square = np.square(error)
    n_tried = np.bincount(layout.visited_state, minlength=len(layout.state_mdp))
    usual = sums_by(layout.visited_state, square, len(n_tried)) / np.maximum(n_tried, 1)
    deviation = np.sqrt(square + usual.take(layout.visited_state) + SMALLEST_ERROR**2)
    others = np.zeros((len(state), 3))  # whether unvisited, advantage in errors, doubt
    others[n_visited:, 0] = 1.0
    others[:n_visited, 1] = np.arcsinh(advantage[:n_visited, CERTAINTY_EQUIVALENT] / deviation)
    asinh_q = np.arcsinh(q)
    gap = np.maximum(asinh_q[:, OPTIMISTIC] - asinh_q[:, PESSIMISTIC], 0.0)
    others[:, 2] = gap / (gap + DOUBT_UNIT)
    relative = np.maximum(advantage / largest.take(mdp, axis=0), -2.0)
    return np.concatenate([asinh_q, np.arcsinh(advantage / ADVANTAGE_UNIT), relative, others], axis=1)


def _outcomes(z: PairTable) -> Floats:
    """(visited, N_OUTCOMES) log of how many successors were seen, and the shares that stayed and that terminated.

    Attention averages over successors: it tells neither how many there are nor whether one is the state itself.
    """
    row, n = z.transition_row, len(z.pair)
    log_variety, stays = _ways(z)
    ended = z.n_terminated / z.n_visits.take(row)
    return np.array([log_variety, sums_by(row, z.successor_probs * stays, n), sums_by(row, ended, n)]).T


@of_structure
def _ways(z: PairTable) -> tuple[Floats, Bools]:
    """(visited,) log of how many successors were seen, and (observed,) whether a transition leads back at once."""
    return np.log(z.n_successors), z.successor == z.state[z.transition_row]


def _known_before(z: PairTable, info: ProblemInfo) -> Floats:
    """(B, 6) about each problem, before anything is seen of it: horizon, reward range, sizes."""
    has_range = np.isfinite(info.reward_high)
    low = np.where(has_range, info.reward_low, 0.0) / z.reward_scale
    high = np.where(has_range, info.reward_high, 0.0) / z.reward_scale
    horizon = np.log10(1 / (1 - info.discount)) - 1
    return np.array([horizon, has_range, low, high, np.log(z.n_states) / 4, np.log(z.n_actions) / 2]).T


def _seen(model: EmpiricalModel, outcomes: Floats) -> Floats:
    """(B, 10) statistics over the visited pairs of each problem, which may hold for unvisited pairs too.

    How much was seen; whether the same action leads to the same state again; where pairs lead; rewards. The loops that
    stand for terminal states are nothing that was seen.
    """
    z, n = model.table, len(model.table)
    single, twice, reward = z.n_successors == 1, z.n_visits > 1, z.normalized_reward
    variety, stays, ends = outcomes.T
    of_pair = np.array(
        [np.ones(len(z.pair)), z.n_visits, twice, single & twice, variety * twice, stays, ends, reward != 0]
    )
    of_pair *= model.goes_on
    column = np.arange(len(of_pair))[:, None] * n + z.pair_mdp
    sums = sums_by(column.reshape(-1), of_pair.reshape(-1), len(of_pair) * n).reshape(-1, n)
    n_seen, n_visits, n_twice, n_single, variety_sum, stays_sum, ends_sum, n_paying = sums
    lowest, highest = np.zeros(n), np.zeros(n)
    np.minimum.at(lowest, z.pair_mdp, reward)  # loops pay nothing
    np.maximum.at(highest, z.pair_mdp, reward)
    n_pairs, among_seen, among_twice = z.n_states * z.n_actions, np.maximum(n_seen, 1), np.maximum(n_twice, 1)
    return np.array(
        [
            n_seen / n_pairs,
            np.log1p(n_visits / n_pairs),
            n_twice / among_seen,
            n_single / among_twice,
            variety_sum / among_twice,
            stays_sum / among_seen,
            ends_sum / among_seen,
            n_paying / among_seen,
            lowest,
            highest,
        ]
    ).T
