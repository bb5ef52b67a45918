"""Machine replacement: run a wearing machine, repair it or buy a new one."""

from functools import partial

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.model.mdp import TabularMDP

SOURCE = "Bertsekas (2017), Dynamic Programming and Optimal Control I, 4th edition, machine replacement"
RUN, REPAIR, REPLACE = range(3)
COST = {RUN: 0.0, REPAIR: 3.0, REPLACE: 8.0}
WEAR = (0.5, 0.35, 0.15)  # probabilities of wearing by 0, 1 or 2 conditions in a period


def machine_replacement(n_conditions: int) -> TabularMDP:
    """Conditions 0 (new) to n − 1 (worn out); a period pays 5 in condition 0 and in proportion less to nothing.

    Running wears the machine; a repair brings it back by two conditions, a replacement to 0, before it runs.
    """
    worst = n_conditions - 1

    def outcomes(condition: int, action: int) -> list[Outcome]:
        running = {RUN: condition, REPAIR: max(condition - 2, 0), REPLACE: 0}[action]
        profit = 5.0 * (1 - running / worst) - COST[action]
        return [Outcome(p, min(running + wear, worst), profit) for wear, p in enumerate(WEAR)]

    return mdp_from_outcomes(n_conditions, 3, outcomes, discount=0.95, start=0)


ENVIRONMENTS = [
    Environment(f"machine-replacement-{n}", "machine replacement", SOURCE, 50, partial(machine_replacement, n))
    for n in (6, 15)
]
