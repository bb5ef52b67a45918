"""Loosely coupled systems about which nothing else is known: the paper's four geometries.

Some systems have no story: states that lie near one another in some latent space (a line, a plane, a volume) or not at
all, actions that scatter over a few of the neighbours, rewards here and there. They keep the model honest where no
other family applies.
"""

from dataclasses import replace

import numpy as np

from mdpfn.model.mdp import TabularMDP
from mdpfn.prior.paper import PriorConfig, sample_mdp_of_size
from mdpfn.prior.starts import sample_start


def sample_paper(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """The paper's prior (Table 2) at the wished size, with a random start."""
    mdp = sample_mdp_of_size(rng, n_states, n_actions, PriorConfig())
    return replace(mdp, start=sample_start(rng, mdp.terminal))
