"""Chain and Loop: the two small problems of Bayesian Q-learning."""

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.model.mdp import TabularMDP

SOURCE = "Dearden, Friedman and Russell (1998), Bayesian Q-learning; Strens (2000), A Bayesian framework for RL"
FORWARD = 0  # the other action is back
N_STATES, SLIP = 5, 0.2


def chain() -> TabularMDP:
    """Forward moves on for nothing and pays 10 at the end, back pays 2 and returns to the first state.

    With probability 0.2 an action has the effect of the other one.
    """
    last = N_STATES - 1

    def outcomes(state: int, action: int) -> list[Outcome]:
        forward = Outcome(0.0, min(state + 1, last), 10.0 * (state == last))
        back = Outcome(0.0, 0, 2.0)
        chosen, other = (forward, back) if action == FORWARD else (back, forward)
        return [chosen._replace(probability=1 - SLIP), other._replace(probability=SLIP)]

    return mdp_from_outcomes(N_STATES, 2, outcomes, discount=0.95, start=0)


def loop() -> TabularMDP:
    """Two loops of five steps through state 0: one pays 1 whatever is done on it, the other 2, but only action 1
    keeps to it.
    """

    def outcomes(state: int, action: int) -> list[Outcome]:
        if state == 0:
            return [Outcome(1.0, 1 if action == 0 else 5, 0.0)]
        if state < 4:
            return [Outcome(1.0, state + 1, 0.0)]
        if state == 4:
            return [Outcome(1.0, 0, 1.0)]
        if action == 0:
            return [Outcome(1.0, 0, 0.0)]
        return [Outcome(1.0, 0, 2.0) if state == 8 else Outcome(1.0, state + 1, 0.0)]

    return mdp_from_outcomes(9, 2, outcomes, discount=0.95, start=0)


ENVIRONMENTS = [
    Environment("chain-5", "chain", SOURCE, 50, chain),
    Environment("loop", "loop", SOURCE, 50, loop),
]
