"""Forest management: wait for an old forest, or cut before it burns."""

from functools import partial

import numpy as np

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.model.mdp import TabularMDP

SOURCE = "Chadès et al. (2014), MDPtoolbox, Ecography 37, example `forest`"
CUT = 1  # the other action is to wait


def forest(n_ages: int = 3, *, fire_probability: float = 0.1, discount: float = 0.95) -> TabularMDP:
    """Ages 0 to n − 1. A year of waiting ages the forest unless it burns down, and pays 4 at the oldest age.

    Cutting pays 1, at the oldest age 2 and at age 0 nothing.
    """
    oldest = n_ages - 1

    def outcomes(age: int, action: int) -> list[Outcome]:
        if action == CUT:
            return [Outcome(1.0, 0, 2.0 if age == oldest else 1.0 * (age > 0))]
        reward = 4.0 * (age == oldest)
        return [Outcome(fire_probability, 0, reward), Outcome(1 - fire_probability, min(age + 1, oldest), reward)]

    return mdp_from_outcomes(n_ages, 2, outcomes, discount=discount, start=np.full(n_ages, 1 / n_ages))


ENVIRONMENTS = [
    Environment(f"forest-{n}", "forest", SOURCE, 50, partial(forest, n, fire_probability=fire))
    for n, fire in ((3, 0.1), (10, 0.05))
]
