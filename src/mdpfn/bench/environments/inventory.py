"""Inventory control: order today for a demand that shows tomorrow."""

from collections.abc import Sequence
from functools import partial

from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes, poisson_probabilities
from mdpfn.model.mdp import TabularMDP

SOURCE = "Puterman (1994), Markov Decision Processes, sec. 3.2"
ORDER_COST, UNIT_COST, HOLDING_COST, PRICE = 4.0, 2.0, 1.0, 8.0


def inventory(capacity: int = 3, demand: Sequence[float] = (0.25, 0.5, 0.25)) -> TabularMDP:
    """Stock 0 to `capacity`; action a orders a units, of which only those that fit are delivered and paid.

    Sales are the smaller of stock and demand; what is there before sales costs 1 a unit. `demand` holds
    the probabilities of 0, 1, 2, … units.
    """

    def outcomes(stock: int, action: int) -> list[Outcome]:
        ordered = min(action, capacity - stock)
        available = stock + ordered
        cost = ORDER_COST * (ordered > 0) + UNIT_COST * ordered + HOLDING_COST * available
        return [
            Outcome(probability, max(available - wanted, 0), PRICE * min(wanted, available) - cost)
            for wanted, probability in enumerate(demand)
        ]

    return mdp_from_outcomes(capacity + 1, capacity + 1, outcomes, discount=0.95, start=0)


ENVIRONMENTS = [
    Environment("inventory-3", "inventory", SOURCE, 50, inventory),
    Environment(
        "inventory-12", "inventory", f"{SOURCE}, with Poisson demand", 50,
        partial(inventory, 12, poisson_probabilities(4.0, 12).tolist()),
    ),
]  # fmt: skip
