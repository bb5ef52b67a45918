"""Selling an asset: take the offer on the table, or pay to wait for a better one."""

from __future__ import annotations

import numpy as np

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.model.mdp import TabularMDP

SOURCE = "Bertsekas (2017), Dynamic Programming and Optimal Control I, 4th edition, sec. 3.4"
SELL, WAIT = range(2)


def asset_selling(n_offers: int = 10, *, waiting_cost: float = 0.1, discount: float = 0.95) -> TabularMDP:
    """Offers 1 to n, all as likely; selling pays the offer and ends it, waiting costs 0.1 and draws a new offer."""
    sold = n_offers

    def outcomes(state: int, action: int) -> list[Outcome]:
        if state == sold:
            return [Outcome(1.0, sold, 0.0)]
        if action == SELL:
            return [Outcome(1.0, sold, state + 1.0)]
        return [Outcome(1 / n_offers, offer, -waiting_cost) for offer in range(n_offers)]

    start = np.append(np.full(n_offers, 1 / n_offers), 0.0)
    return mdp_from_outcomes(n_offers + 1, 2, outcomes, discount=discount, start=start, terminal=[sold])


ENVIRONMENTS = [Environment("asset-selling", "asset selling", SOURCE, 50, asset_selling)]
