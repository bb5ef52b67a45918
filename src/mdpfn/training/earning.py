"""A policy that acts in a training task as the shipped explorer would, planned once per episode."""

import numpy as np

from mdpfn.arrays import Floats, normalized
from mdpfn.evidence import PairTable
from mdpfn.exploration.clock import Clock
from mdpfn.exploration.earning import PRICE, EarningConfig, EarningExplorer
from mdpfn.planners.problem_info import ProblemInfo

WITHOUT_SLIP = EarningConfig(slip=None)  # the tables of training hold what slip foretells already
NEARLY_AS_GOOD = 0.3  # of the price: at use, news within an episode would make the explorer prefer these next


def earning_policy(table: PairTable, info: ProblemInfo, episode: int, budget: int) -> Floats:
    """(pairs,) equal probability on the actions that look best to the explorer in episode `episode` of `budget`."""
    explorer, clock = EarningExplorer(config=WITHOUT_SLIP), Clock(episode=episode, budget=budget)
    for _ in range(2):  # the second plan knows what values are usual
        explorer.plan(table, info, clock)
    carried, n_states = explorer.carried, int(table.n_states[0])
    row = np.full(n_states, len(carried.known))
    row[carried.known] = np.arange(len(carried.known))
    best = carried.exploring >= carried.exploring.max(axis=1, keepdims=True) - NEARLY_AS_GOOD * carried.scalars[PRICE]
    return np.ravel(normalized(best)[row])
