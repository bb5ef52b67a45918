"""A reserve to live on: work that pays drains it, rest fills it, and running dry is costly.

Batteries, stamina, budgets and goodwill follow the same pattern. What is best depends on how much is left, and the
price of running dry is learned the hard way.
"""

import numpy as np

from mdpfn.model.mdp import TabularMDP
from mdpfn.prior.assembly import assemble
from mdpfn.prior.draws import coin, simplex, whole
from mdpfn.prior.sizes import log_uniform


def sample_energy(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """Reserve 0 … S − 1; the first action fills it, each other is work with its own drain and pay.

    Work that would take more than there is leads to rescue, which costs and fills the reserve, or ends the episode.
    """
    top = n_states - 1
    level = np.arange(n_states)[:, None, None]
    largest = whole(rng, 1, max(1, min(6, top)))
    drain = np.arange(largest + 1)
    chance = simplex(rng, log_uniform(rng, 0.3, 3.0), (n_actions, largest + 1))
    gain = whole(rng, 1, max(1, top))
    change = np.tile(-drain, (n_actions, 1))
    change[0] = drain * gain
    after = level + change
    dry = after < 0
    ends = n_states > 2 and coin(rng, 0.35)
    next_state = np.where(dry, 0 if ends else top, np.clip(after, 0, top))
    pay = np.sort(rng.random(n_actions)) ** log_uniform(rng, 0.5, 2.0)
    if coin(rng, 0.7):  # work that drains more pays more
        pay[np.argsort(chance @ drain)] = pay.copy()
    pay[0] = -rng.random() * float(coin(rng, 0.4))
    reward = np.where(dry, -log_uniform(rng, 0.1, 10.0), pay[:, None])
    terminal = (np.arange(n_states) == 0) & ends
    start = top if coin(rng, 0.6) else whole(rng, int(ends), top)
    return assemble(next_state, chance, reward, start, terminal)
