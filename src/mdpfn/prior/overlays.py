"""Random changes to any world: noise, costs, other units, useless actions, other starts, and renamed ids."""

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from mdpfn.arrays import Floats, Ints, offsets_of
from mdpfn.model.mdp import TabularMDP
from mdpfn.prior.assembly import assemble
from mdpfn.prior.draws import coin
from mdpfn.prior.sizes import log_uniform
from mdpfn.prior.starts import sample_start


def with_other_start(rng: np.random.Generator, mdp: TabularMDP) -> TabularMDP:
    """In a sixth of the worlds, episodes begin elsewhere than the family says."""
    if mdp.terminal.all() or not coin(rng, 1 / 6):
        return mdp
    return replace(mdp, start=sample_start(rng, mdp.terminal))


def with_other_rewards(rng: np.random.Generator, mdp: TabularMDP) -> TabularMDP:
    """Rewards c (r + b): a cost of every step in a tenth of the worlds, other units (c from 0.01 to 100) in a quarter.

    Where episodes end, a bonus for every step turns the goal into something to avoid, so b is positive in a twentieth
    of these worlds only: there, staying alive is what pays. Elsewhere b shifts all values alike, in either direction.
    """
    size = float(np.abs(mdp.outcome_reward).max())
    shift = 0.0
    if coin(rng, 0.1):
        shift = -size * log_uniform(rng, 0.003, 0.1)
        if not mdp.terminal.any():
            shift *= rng.choice((-10.0, 10.0))
    elif mdp.terminal.any() and coin(rng, 0.05):
        shift = size * log_uniform(rng, 0.1, 2.0)
    unit = log_uniform(rng, 0.01, 100.0) if coin(rng, 0.25) else 1.0
    if shift == 0.0 and unit == 1.0:
        return mdp
    alive = ~mdp.terminal
    stored_alive = np.repeat(np.repeat(alive, mdp.n_actions), np.diff(mdp.transition.indptr))
    return replace(
        mdp,
        reward=unit * (mdp.reward + shift * alive[:, None]),
        outcome_reward=unit * (mdp.outcome_reward + shift * stored_alive),
        reward_std=unit * mdp.reward_std,
    )


def with_trembling_hand(rng: np.random.Generator, mdp: TabularMDP) -> TabularMDP:
    """A world without a number of its own gets one: with a small probability ε another action happens than was meant.

    Worlds in which every move is certain and rewards have at most two values are puzzles that many people have written
    down, benchmarks among them. With a random ε, log-uniform from 0.001 to 0.1, none of those can be drawn.
    """
    alive = np.repeat(~mdp.terminal, mdp.n_actions)
    certain = mdp.transition.nnz == len(alive)
    if not certain or len(np.unique(np.round(mdp.outcome_reward[alive], 9))) > 2:
        return mdp
    n_states, n_actions = mdp.reward.shape
    tremble = log_uniform(rng, 1e-3, 0.1)
    next_state = mdp.transition.indices.reshape(n_states, 1, n_actions).repeat(n_actions, axis=1)
    probability = (1 - tremble) * np.eye(n_actions) + tremble / n_actions
    trembling = assemble(next_state, probability, mdp.reward[:, None, :], mdp.start, mdp.terminal, mdp.reward_std)
    return replace(trembling, discount=mdp.discount)


def with_noise(rng: np.random.Generator, mdp: TabularMDP) -> TabularMDP:
    """Gaussian noise on every reward in a fifth of the worlds, from a fiftieth of the largest one to all of it.

    It is as strong everywhere, or only where something is paid.
    """
    if not coin(rng, 0.2):
        return mdp
    strength = log_uniform(rng, 0.02, 1.0) * float(np.abs(mdp.outcome_reward).max())
    where = mdp.reward != 0 if coin(rng, 0.4) else np.ones(mdp.reward.shape, dtype=bool)
    return replace(mdp, reward_std=np.maximum(mdp.reward_std, strength * (where & ~mdp.terminal[:, None])))


def with_new_names(rng: np.random.Generator, mdp: TabularMDP, n_actions: int) -> TabularMDP:
    """States in random order and actions in random order, so that ids carry no information.

    Where fewer than `n_actions` actions exist, half of the worlds have more: copies of others, or waiting, which never
    pays and costs what the worst action costs. In a twentieth of the worlds an action means something else in every
    state.
    """
    old, most = mdp.n_actions, max(mdp.n_actions, n_actions)
    source = np.arange(old)
    if most > old and coin(rng, 0.5):
        n_extra = int(rng.integers(1, most - old + 1))
        source = np.append(source, rng.integers(old + 1, size=n_extra) if coin(rng, 0.5) else np.full(n_extra, old))
    if coin(rng, 0.05):
        action_source = source[rng.random((mdp.n_states, len(source))).argsort(axis=1)]
    else:
        action_source = np.broadcast_to(rng.permutation(source), (mdp.n_states, len(source)))
    return renamed(mdp, rng.permutation(mdp.n_states), action_source)


def renamed(mdp: TabularMDP, state_source: Ints, action_source: Ints) -> TabularMDP:
    """The MDP whose state s is the old `state_source[s]` and whose action a there is the old `action_source[s, a]`.

    The action that follows the last old one is to wait: it stays, never pays and costs what the worst action costs.
    """
    n_states, n_actions = mdp.n_states, mdp.n_actions
    p = mdp.transition
    waiting = np.minimum(mdp.reward.min(axis=1), 0.0)
    row_end = np.concatenate([p.indptr, p.nnz + np.arange(1, n_states + 1)])
    column = np.concatenate([p.indices, np.arange(n_states)])
    probability = np.concatenate([p.data, np.ones(n_states)])
    outcome = np.concatenate([mdp.outcome_reward, waiting])

    state = state_source[:, None]
    row = np.where(action_source == n_actions, n_states * n_actions + state, state * n_actions + action_source)
    length = np.diff(row_end)[row.reshape(-1)]
    new_row_end = offsets_of(length)
    entry = np.arange(new_row_end[-1]) + np.repeat(row_end[row.reshape(-1)] - new_row_end[:-1], length)
    new_id = np.empty(n_states, dtype=np.int64)
    new_id[state_source] = np.arange(n_states)

    def of_pairs(values: Floats, last: Floats) -> Floats:
        return np.concatenate([values.reshape(-1), last])[row]

    return TabularMDP(
        csr_array((probability[entry], new_id[column[entry]], new_row_end), shape=(row.size, n_states)),
        of_pairs(mdp.reward, waiting),
        mdp.discount,
        start=mdp.start[state_source],
        terminal=mdp.terminal[state_source],
        outcome_reward=outcome[entry],
        reward_std=of_pairs(mdp.reward_std, mdp.reward_std.min(axis=1)),
    )
