"""SixArms: six rooms, the better paid the harder to get into."""

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.model.mdp import TabularMDP

SOURCE = "Strehl and Littman (2008), An analysis of model-based interval estimation for Markov decision processes"
ENTRY_PROBABILITY = (1.0, 0.15, 0.1, 0.05, 0.03, 0.01)
ROOM_REWARD = (50.0, 133.0, 300.0, 800.0, 1660.0, 6000.0)
EXIT_OF_FIRST_ROOM = 4


def six_arms() -> TabularMDP:
    """From the hall, action i enters room i with its probability. A room pays for every step that its own action
    stays in it, the first room for every action but one; the others lead back to the hall.
    """

    def outcomes(state: int, action: int) -> list[Outcome]:
        if state == 0:
            enter = ENTRY_PROBABILITY[action]
            return [Outcome(enter, action + 1, 0.0), Outcome(1 - enter, 0, 0.0)]
        room = state - 1
        stays = action != EXIT_OF_FIRST_ROOM if room == 0 else action == room
        return [Outcome(1.0, state, ROOM_REWARD[room]) if stays else Outcome(1.0, 0, 0.0)]

    return mdp_from_outcomes(7, 6, outcomes, discount=0.95, start=0)


ENVIRONMENTS = [Environment("six-arms", "six arms", SOURCE, 100, six_arms)]
