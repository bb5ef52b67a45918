"""Selling an asset: take the offer on the table, or pay to wait for a better one."""

import numpy as np

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.model.mdp import TabularMDP

SOURCE = "Bertsekas (2017), Dynamic Programming and Optimal Control I, 4th edition, sec. 3.4"
SELL, N_OFFERS, WAITING_COST = 0, 10, 0.1


def asset_selling() -> TabularMDP:
    """Offers 1 to n, all as likely; selling pays the offer and ends it, waiting costs 0.1 and draws a new offer."""
    sold = N_OFFERS

    def outcomes(state: int, action: int) -> list[Outcome]:
        if state == sold:
            return [Outcome(1.0, sold, 0.0)]
        if action == SELL:
            return [Outcome(1.0, sold, state + 1.0)]
        return [Outcome(1 / N_OFFERS, offer, -WAITING_COST) for offer in range(N_OFFERS)]

    start = np.append(np.full(N_OFFERS, 1 / N_OFFERS), 0.0)
    return mdp_from_outcomes(N_OFFERS + 1, 2, outcomes, discount=0.95, start=start, terminal=[sold])


ENVIRONMENTS = [Environment("asset-selling", "asset selling", SOURCE, 50, asset_selling)]
