"""Stock: how much to order before the demand is known.

Shops, blood banks and cash machines hold a stock that random demand eats up. Holding costs, running out costs, and
every order costs, whatever its size.
"""

import numpy as np

from mdpfn.arrays import Floats, Ints, normalized
from mdpfn.model.mdp import TabularMDP
from mdpfn.prior.assembly import assemble
from mdpfn.prior.draws import coin, simplex, whole
from mdpfn.prior.sizes import log_uniform


def sample_inventory(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """Stock 0 … S − 1; an action is an order quantity; what is left after the demand is the next stock.

    Sales may be lost or, with states below zero, delivered later; a part of the stock may perish.
    """
    capacity = n_states - 1
    backlog = whole(rng, 1, capacity // 2) if capacity >= 4 and coin(rng, 0.3) else 0
    stock = np.arange(n_states)[:, None] - backlog
    top = capacity - backlog
    quantity = np.unique(np.rint(np.linspace(0, whole(rng, 1, top), n_actions)).astype(np.int64))
    available = np.minimum(stock + quantity, top)
    ordered = available - stock
    demand, chance = _demand(rng, max(2, min(top + 1, 16)))
    left = available[:, :, None] - demand
    sold = np.minimum(demand, np.maximum(available[:, :, None], 0))
    missing = np.maximum(-left, 0)
    after = np.maximum(left, -backlog)
    if coin(rng, 0.2):
        after = np.where(after > 0, np.floor(after * rng.uniform(0.3, 1.0)).astype(np.int64), after)

    price, unit_cost = rng.uniform(0.5, 1.5) * float(coin(rng, 0.7)), rng.uniform(0.0, 0.6)
    order_cost = log_uniform(rng, 0.1, 3.0) * float(coin(rng, 0.6))
    holding, stock_out = log_uniform(rng, 0.01, 0.5), log_uniform(rng, 0.1, 3.0)
    reward = price * sold - holding * np.maximum(left, 0) - stock_out * missing
    reward = reward - (unit_cost * ordered + order_cost * (ordered > 0))[:, :, None]
    scale = np.abs(reward).max() or 1.0
    start = int(rng.integers(n_states)) if coin(rng, 0.5) else backlog
    return assemble(after + backlog, chance, reward / scale, start)


def _demand(rng: np.random.Generator, n_values: int) -> tuple[Ints, Floats]:
    """(D,) possible demands and their probabilities: around a mean, mostly small, or of any shape."""
    demand = np.arange(n_values, dtype=np.int64)
    kind = rng.random()
    if kind < 0.4:
        mean, spread = rng.uniform(0, n_values), log_uniform(rng, 0.5, 0.5 * n_values + 0.5)
        weight = np.exp(-0.5 * ((demand - mean) / spread) ** 2) + 1e-6
    elif kind < 0.7:
        weight = rng.uniform(0.3, 0.95) ** demand
    else:
        weight = simplex(rng, log_uniform(rng, 0.2, 3.0), (n_values,))
    return demand, normalized(weight)
