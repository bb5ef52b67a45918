"""The paper's prior over MDPs (A.1, Table 2): each factor has its sampler, this composes them."""

from dataclasses import dataclass

import numpy as np

from mdpfn.checks import check_range, check_types
from mdpfn.errors import MdpfnError
from mdpfn.model.mdp import TabularMDP
from mdpfn.prior.geometry import sample_geometry, sample_neighbours
from mdpfn.prior.rewards import sample_keep_probability, sample_positive_fraction, sample_rewards
from mdpfn.prior.sizes import log_uniform, sample_n_actions, sample_n_states, sample_outdegree
from mdpfn.prior.transitions import sample_transition


@dataclass(frozen=True)
class PriorConfig:
    """Constants of Table 2."""

    discount: float = 0.95
    n_states: tuple[int, int] = (2, 32)
    n_actions: tuple[int, int] = (2, 4)
    max_outdegree: int = 6
    concentration: tuple[float, float] = (0.05, 5.0)

    def __post_init__(self) -> None:
        check_types(self)
        for field in ("n_states", "n_actions", "concentration"):
            check_range(field, getattr(self, field))
        if not 0 <= self.discount < 1:
            raise MdpfnError("discount", self.discount, "it must lie in [0, 1)", "use a value such as 0.95")
        if self.max_outdegree < 1:
            raise MdpfnError("max_outdegree", self.max_outdegree, "it must be at least 1", "give a positive number")


def sample_mdp(
    rng: np.random.Generator, config: PriorConfig | None = None, size_quantile: float | None = None
) -> TabularMDP:
    """One MDP from the prior, of a given rank among its sizes if `size_quantile` says so."""
    config = config or PriorConfig()
    n_states = sample_n_states(rng, *config.n_states, size_quantile)
    return sample_mdp_of_size(rng, n_states, sample_n_actions(rng, *config.n_actions), config)


def sample_mdp_of_size(rng: np.random.Generator, n_states: int, n_actions: int, config: PriorConfig) -> TabularMDP:
    """One MDP from the prior, given its numbers of states and actions."""
    outdegree = min(sample_outdegree(rng, config.max_outdegree), n_states)
    pool_size = min(outdegree * config.n_actions[1] // 2, n_states)  # |N(s, a)| = O·A_max/2
    pool = sample_neighbours(rng, sample_geometry(rng), n_states, max(pool_size, outdegree))
    concentration = log_uniform(rng, *config.concentration)  # α: near-deterministic to diffuse rows
    transition = sample_transition(rng, pool, n_actions, outdegree, concentration)
    keep, positive = sample_keep_probability(rng), sample_positive_fraction(rng)
    reward = sample_rewards(rng, n_states, n_actions, keep, positive)
    return TabularMDP.unchecked(transition, reward, config.discount)


def sample_mdps(rng: np.random.Generator, n: int, config: PriorConfig | None = None) -> list[TabularMDP]:
    """`n` MDPs whose sizes are stratified: each follows the prior, and together they are spread evenly over it.

    Batches of the same total size keep processes that wait for one another equally busy.
    """
    quantiles = (np.arange(n) + rng.random(n)) / n
    return [sample_mdp(rng, config, float(quantile)) for quantile in quantiles]
