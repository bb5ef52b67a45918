"""RiverSwim: a little at once downstream, a lot after a long swim against the current."""

from functools import partial

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.model.mdp import TabularMDP

SOURCE = "Strehl and Littman (2008), An analysis of model-based interval estimation for Markov decision processes"
LEFT, RIGHT = range(2)


def river_swim(n_states: int = 6, *, discount: float = 0.95) -> TabularMDP:
    """Left always succeeds and pays 5 at the left bank; right moves 0.3 on and 0.1 back, and pays 10,000 where it
    holds at the right bank. Starts in the second or third state.
    """
    last = n_states - 1

    def outcomes(state: int, action: int) -> list[Outcome]:
        if action == LEFT:
            return [Outcome(1.0, max(state - 1, 0), 5.0 * (state == 0))]
        if state == 0:
            return [Outcome(0.7, 0, 0.0), Outcome(0.3, 1, 0.0)]
        if state == last:
            return [Outcome(0.7, last - 1, 0.0), Outcome(0.3, last, 10_000.0)]
        return [Outcome(0.1, state - 1, 0.0), Outcome(0.6, state, 0.0), Outcome(0.3, state + 1, 0.0)]

    start = [0.5 * (state in (1, 2)) for state in range(n_states)]
    return mdp_from_outcomes(n_states, 2, outcomes, discount=discount, start=start)


ENVIRONMENTS = [
    Environment(f"river-swim-{n}", "river swim", SOURCE, 20 * n, partial(river_swim, n, discount=discount))
    for n, discount in ((6, 0.95), (12, 0.99))
]
