"""Decisions one after the other until a deadline: every action leads to the next stage.

Negotiations, treatment plans, card games, sales with an end date: there is no way back, what was decided early limits
what can be had at the end, and an episode is over after a few stages.
"""

import numpy as np

from mdpfn.arrays import Bools, Floats
from mdpfn.model.mdp import TabularMDP
from mdpfn.prior.assembly import assemble
from mdpfn.prior.draws import coin, one_of, simplex, whole
from mdpfn.prior.rewards import sample_keep_probability, sample_positive_fraction, sample_rewards
from mdpfn.prior.sizes import log_uniform


def sample_layers(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """A decision tree, a descent between left and right, stages joined at random, or when to stop."""
    if n_states < 4:
        return _stopping(rng, n_states, n_actions)
    return one_of(rng, (_tree, _descent, _descent, _stages, _stopping))(rng, n_states, n_actions)


def _ending(rng: np.random.Generator, n_states: int) -> tuple[int, Bools]:
    """Where one is after the last stage: the last state, terminal, or the first one, as the next round begins."""
    if coin(rng, 0.85):
        return n_states - 1, np.arange(n_states) == n_states - 1
    return 0, np.zeros(n_states, dtype=bool)


def _prizes(rng: np.random.Generator, n: int) -> Floats:
    """(n,) one prize of 1 and nothing, crumbs or anything for the rest."""
    kind = rng.random()
    prizes = np.zeros(n)
    if kind < 0.3:
        prizes = np.exp(rng.uniform(np.log(1e-3), np.log(0.5), n))
    elif kind < 0.6:
        prizes = rng.uniform(-1.0, 1.0, n)
    prizes[int(rng.integers(n))] = 1.0
    return prizes


def _slip(rng: np.random.Generator, n_branches: int) -> Floats:
    """(branches, branches) probability of each branch for each one that is meant."""
    share = rng.uniform(0.05, 0.6) * float(coin(rng, 0.4))
    return (1 - share) * np.eye(n_branches) + share / n_branches


def _meaning(rng: np.random.Generator, n_states: int, n_actions: int, n_branches: int) -> Floats:
    """(S, A, branches) the branch each action takes, with slips: the same in every state or new in each."""
    branch = np.arange(n_actions) % n_branches
    slip = _slip(rng, n_branches)
    if coin(rng, 0.5):
        return np.broadcast_to(slip[branch], (n_states, n_actions, n_branches))
    return slip[branch[rng.random((n_states, n_actions)).argsort(axis=-1)]]


def _tree(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """A tree of choices; leaves pay their prize and end the episode."""
    n_branches = whole(rng, 2, min(n_actions, n_states - 1, 4))
    n_states = (n_states - 1) // n_branches * n_branches + 1  # each node has all of its children or none
    child = np.arange(n_states)[:, None] * n_branches + 1 + np.arange(n_branches)
    leaf = child[:, 0] >= n_states
    next_state = np.minimum(child, n_states - 1)[:, None, :].repeat(n_actions, axis=1)
    entry = np.zeros(n_states)
    entry[leaf] = _prizes(rng, int(leaf.sum()))
    cost = log_uniform(rng, 1e-3, 0.1) * float(coin(rng, 0.3))
    return assemble(next_state, _meaning(rng, n_states, n_actions, n_branches), entry[next_state] - cost, 0, leaf)


def _descent(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """Columns of a board that is descended row by row, each action a step to the side; the last row pays prizes.

    One of the steps may cost a little each time, so that looking for the prize costs before it pays.
    """
    depth = int(np.clip(np.sqrt(n_states) * log_uniform(rng, 0.5, 2.0), 2, n_states // 2))
    width = (n_states - 1) // depth
    n_states = depth * width + 1
    row, column = np.divmod(np.arange(n_states), width)
    end, terminal = _ending(rng, n_states)
    shift = np.array(one_of(rng, [(-1, 1), (0, 1), (-1, 0, 1)][: 3 if n_actions >= 3 else 2]))
    if not terminal.any():
        n_states, row, column, terminal = n_states - 1, row[:-1], column[:-1], terminal[:-1]
    side = np.clip(column[:, None] + shift, 0, width - 1)
    next_state = np.where(row[:, None] < depth - 1, (row[:, None] + 1) * width + side, end)
    reward = np.zeros(next_state.shape)
    at_bottom = row == depth - 1
    reward[at_bottom] = _prizes(rng, width)[side[at_bottom]]
    if coin(rng, 0.5):
        reward[:, -1] -= log_uniform(rng, 1e-3, 0.8) / depth
    start = int(rng.integers(width)) if coin(rng, 0.5) else 0
    probability = _meaning(rng, n_states, n_actions, len(shift))
    return assemble(next_state[:, None, :].repeat(n_actions, axis=1), probability, reward[:, None, :], start, terminal)


def _stages(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """Stages of a few situations each, joined at random; pairs pay as in the paper, or only the last stage pays."""
    width = whole(rng, 1, max(1, n_states // 3))
    depth = (n_states - 1) // width
    n_states = depth * width + 1
    end, terminal = _ending(rng, n_states)
    outdegree = min(whole(rng, 1, 4), width)
    stage = np.arange(n_states)[:, None, None] // width
    next_state = (stage + 1) * width + rng.integers(width, size=(n_states, n_actions, outdegree))
    next_state = np.where(stage >= depth - 1, end, next_state)
    probability = simplex(rng, log_uniform(rng, 0.1, 5.0), next_state.shape)
    if coin(rng, 0.5):
        reward = sample_rewards(rng, n_states, n_actions, sample_keep_probability(rng), sample_positive_fraction(rng))
    else:
        reward = np.zeros((n_states, n_actions))
        last = slice((depth - 1) * width, depth * width)
        reward[last] = _prizes(rng, width * n_actions).reshape(width, n_actions)
    return assemble(next_state, probability, reward[:, :, None], int(rng.integers(width)), terminal)


def _stopping(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """Stop and take what one has, or go on: a total that grows and may go bust, or one offer after the other."""
    end = n_states - 1
    terminal = np.arange(n_states) == end
    value = (np.arange(1, n_states) / end) ** log_uniform(rng, 0.3, 3.0)
    value = np.append(np.where(value >= rng.uniform(0, 0.8) * float(coin(rng, 0.3)), value, 0.0), 0.0)
    total = np.arange(n_states)[:, None, None]
    if coin(rng, 0.6):
        largest = whole(rng, 1, min(10, n_states))
        grown = total + whole(rng, 0, 1) + np.arange(largest)
        bust = grown >= end
        next_state = np.where(bust, end, grown).repeat(n_actions, axis=1)
        reward = np.where(bust, -rng.uniform(0.0, 1.0) * float(coin(rng, 0.5)), 0.0).repeat(n_actions, axis=1)
        probability = simplex(rng, log_uniform(rng, 0.3, 5.0), (1, n_actions, largest))
    else:
        over = rng.uniform(0.0, 0.2)
        next_state = np.broadcast_to(np.append(np.arange(end), end), (n_states, n_actions, n_states)).copy()
        offer = simplex(rng, log_uniform(rng, 0.3, 5.0), (1, n_actions, end)) * (1 - over)
        probability = np.concatenate([offer, np.full((1, n_actions, 1), over)], axis=-1)
        reward = np.zeros(next_state.shape)
    reward = reward - log_uniform(rng, 1e-3, 0.2) * float(coin(rng, 0.5))
    next_state[:, 0] = end
    reward[:, 0] = value[:, None]
    start = int(rng.integers(end)) if coin(rng, 0.3) else 0
    return assemble(next_state, np.broadcast_to(probability, next_state.shape), reward, start, terminal)
