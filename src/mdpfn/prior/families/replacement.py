"""Things that wear out, and things that grow: when to repair, replace or harvest.

Machines, roads and vehicles earn less as they age until someone pays to renew them; forests, fish and savings grow
until someone cuts them down or disaster does. The best moment depends on rates nobody states in advance.
"""

import numpy as np

from mdpfn.model.mdp import TabularMDP
from mdpfn.prior.assembly import assemble
from mdpfn.prior.draws import coin, simplex, whole
from mdpfn.prior.sizes import log_uniform


def sample_replacement(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """Something that decays, or something that grows."""
    return (_growth if coin(rng, 0.4) else _decay)(rng, n_states, n_actions)


def _decay(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """Condition 0 (new) … S − 1 (broken). Keep, replace, and between them repairs that undo a part of the wear.

    What it earns falls with its condition, even below nothing; broken, it costs until it is replaced, or ends the
    episode.
    """
    condition = np.arange(n_states)[:, None, None]
    broken = n_states - 1
    largest = whole(rng, 1, min(3, broken))
    jump = simplex(rng, log_uniform(rng, 0.3, 3.0), (largest + 1,))
    jump = np.append(jump, rng.uniform(0.0, 0.2) * float(coin(rng, 0.4)))  # the last: it breaks at once
    jump /= jump.sum()

    repaired = np.linspace(0, 1, n_actions)  # the share of the wear that an action undoes: none … all
    repaired[1:-1] = np.sort(rng.random(n_actions - 2))
    base = np.floor(condition * (1 - repaired[:, None])).astype(np.int64)
    worn = np.minimum(base + np.arange(largest + 1), broken)
    next_state = np.concatenate([worn, np.full((n_states, n_actions, 1), broken)], axis=-1)
    stuck = (condition == broken) & (repaired[:, None] < 1)
    next_state = np.where(stuck, broken, next_state)

    wear = np.arange(n_states)[:, None] / broken
    lost = log_uniform(rng, 0.7, 10.0) * wear ** log_uniform(rng, 0.4, 4.0)
    cost = log_uniform(rng, 0.2, 6.0) * repaired ** log_uniform(rng, 0.5, 2.0)
    reward = float(coin(rng, 0.8)) - lost - cost
    reward[broken] -= log_uniform(rng, 0.1, 5.0)
    terminal = (np.arange(n_states) == broken) & coin(rng, 0.2)
    start = int(rng.integers(broken)) if coin(rng, 0.3) else 0
    return assemble(next_state, jump, reward[:, :, None], start, terminal)


def _growth(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """Size 0 … S − 1. Waiting lets it grow unless disaster strikes; harvesting takes a share of it and pays for it."""
    size = np.arange(n_states)[:, None]
    taken = np.linspace(0, 1, n_actions)
    taken[1:-1] = np.sort(rng.random(n_actions - 2))
    left = np.floor(size * (1 - taken)).astype(np.int64)
    grows, disaster = rng.uniform(0.2, 1.0), log_uniform(rng, 0.003, 0.3)
    next_state = np.stack([np.minimum(left + 1, n_states - 1), left, np.zeros_like(left)], axis=-1)
    probability = np.array([(1 - disaster) * grows, (1 - disaster) * (1 - grows), disaster])
    value = (np.arange(n_states) / (n_states - 1)) ** log_uniform(rng, 0.5, 3.0)
    reward = value[:, None] - value[left]
    if coin(rng, 0.3):  # what stands pays too
        reward = reward + value[:, None] * log_uniform(rng, 0.01, 0.5)
    reward -= (taken > 0) * log_uniform(rng, 0.005, 0.3) * float(coin(rng, 0.5))
    return assemble(next_state, probability, reward[:, :, None], int(rng.integers(n_states)) if coin(rng, 0.3) else 0)
