"""Loosely coupled systems about which nothing else is known: the paper's four geometries.

Some systems have no story: states that lie near one another in some latent space (a line, a plane, a volume) or not at
all, actions that scatter over a few of the neighbours, rewards here and there. They keep the model honest where no
other family applies.
"""

from dataclasses import replace

import numpy as np

from mdpfn.model.mdp import TabularMDP
from mdpfn.prior.assembly import DISCOUNT
from mdpfn.prior.geometry import sample_geometry, sample_neighbours
from mdpfn.prior.rewards import sample_keep_probability, sample_positive_fraction, sample_rewards
from mdpfn.prior.sizes import log_uniform, sample_outdegree
from mdpfn.prior.starts import sample_start
from mdpfn.prior.transitions import sample_transition

MAX_OUTDEGREE = 6
CONCENTRATION = (0.05, 5.0)


def sample_paper(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """The paper's prior (Table 2) at the wished size, with a random start."""
    outdegree = min(sample_outdegree(rng, MAX_OUTDEGREE), n_states)
    pool = sample_neighbours(rng, sample_geometry(rng), n_states, min(2 * outdegree, n_states))
    transition = sample_transition(rng, pool, n_actions, outdegree, log_uniform(rng, *CONCENTRATION))
    reward = sample_rewards(rng, n_states, n_actions, sample_keep_probability(rng), sample_positive_fraction(rng))
    start = sample_start(rng, np.zeros(n_states, dtype=bool))
    return replace(TabularMDP.unchecked(transition, reward, DISCOUNT), start=start)
