"""Stakes: how much of what one has to put at risk.

Investors, poker players and firms choose how much to bet at odds they have to find out; bankruptcy ends it, and so may
a target once it is reached.
"""

import numpy as np

from mdpfn.model.mdp import TabularMDP
from mdpfn.prior.assembly import assemble
from mdpfn.prior.draws import coin, whole
from mdpfn.prior.sizes import log_uniform
from mdpfn.prior.starts import sample_start


def sample_gamble(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """Capital 0 (ruin) … S − 1 (the target); an action is a stake, in units or as a share, won or lost or kept.

    Games differ by action: their odds are equal, or larger stakes have other odds. What pays is reaching the target,
    or every gain and loss, and then what exceeds the target is cashed in.
    """
    target = n_states - 1
    capital = np.arange(n_states)[:, None]
    if coin(rng, 0.5):
        stake = np.minimum(np.sort(rng.integers(1, max(2, target // 2) + 1, n_actions)), capital)
    else:
        stake = np.ceil(capital * np.sort(rng.random(n_actions))).astype(np.int64)
    multiple = whole(rng, 1, 3)
    odds = np.clip(rng.uniform(0.5, 1.5) / (1 + multiple) + rng.normal(0, 0.15, n_actions) * coin(rng, 0.5), 0.02, 0.98)
    tie = rng.uniform(0.0, 0.5) * float(coin(rng, 0.2))
    win = np.minimum(capital + multiple * stake, target)
    next_state = np.stack([win, capital - stake, np.broadcast_to(capital, win.shape)], axis=-1)
    probability = np.stack([odds * (1 - tie), (1 - odds) * (1 - tie), np.full(n_actions, tie)], axis=-1)
    state = np.arange(n_states)
    if target >= 2 and coin(rng, 0.6):
        reward = (next_state == target).astype(np.float64)
        terminal = (state == 0) | (state == target)
    else:
        gain = np.stack([multiple * stake, -stake, np.zeros_like(stake)], axis=-1)
        reward = gain / target
        terminal = state == 0
    reward = reward - log_uniform(rng, 1e-3, 0.05) * float(coin(rng, 0.3))
    return assemble(next_state, probability, reward, sample_start(rng, terminal), terminal)
