"""Garnet: random MDPs in which every pair leads to a few random states."""

from functools import partial

import numpy as np

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.model.mdp import TabularMDP

SOURCE = "Archibald, McKinnon and Thomas (1995), On the generation of Markov decision processes"


def garnet(n_states: int, n_actions: int, branching: int) -> TabularMDP:
    """Every pair leads to `branching` states, drawn without replacement, with probabilities cut by uniform points.

    Mean rewards are standard normal, one per pair.
    """
    rng = np.random.default_rng(0)
    n_pairs = n_states * n_actions
    successors = [rng.choice(n_states, branching, replace=False).tolist() for _ in range(n_pairs)]
    cuts = np.sort(rng.random((n_pairs, branching - 1)), axis=1)
    probabilities = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
    rewards = rng.standard_normal(n_pairs)

    def outcomes(state: int, action: int) -> list[Outcome]:
        pair = state * n_actions + action
        return [
            Outcome(float(p), s, float(rewards[pair]))
            for p, s in zip(probabilities[pair], successors[pair], strict=True)
        ]

    return mdp_from_outcomes(n_states, n_actions, outcomes, discount=0.95, start=0)


ENVIRONMENTS = [
    Environment(f"garnet-{s}-{a}-{b}", "garnet", SOURCE, 50, partial(garnet, s, a, b))
    for s, a, b in ((10, 3, 2), (30, 4, 3), (100, 5, 2))
]
