"""The richer prior, of `mdpfn-2`: a mixture of families of problems in random sizes, units and names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from mdpfn.checks import check_range, check_types
from mdpfn.errors import MdpfnError
from mdpfn.model.mdp import TabularMDP
from mdpfn.prior.draws import coin
from mdpfn.prior.families.bandit import sample_bandit
from mdpfn.prior.families.chain import sample_chain
from mdpfn.prior.families.energy import sample_energy
from mdpfn.prior.families.errand import sample_errand
from mdpfn.prior.families.gamble import sample_gamble
from mdpfn.prior.families.goals import sample_goals
from mdpfn.prior.families.inventory import sample_inventory
from mdpfn.prior.families.layers import sample_layers
from mdpfn.prior.families.maze import sample_maze
from mdpfn.prior.families.paper import sample_paper
from mdpfn.prior.families.pursuit import sample_pursuit
from mdpfn.prior.families.queue import sample_queue
from mdpfn.prior.families.replacement import sample_replacement
from mdpfn.prior.overlays import with_new_names, with_noise, with_other_rewards, with_other_start, with_trembling_hand
from mdpfn.prior.sizes import log_uniform, sample_n_states
from mdpfn.prior.triviality import is_trivial

# A sampler of MDPs with at most that many states and actions.
Family: TypeAlias = Callable[[np.random.Generator, int, int], TabularMDP]

_SHARES: dict[str, tuple[Family, float]] = {  # by name: the family, and how often it occurs
    "paper": (sample_paper, 0.13),
    "goals": (sample_goals, 0.13),
    "maze": (sample_maze, 0.20),
    "chain": (sample_chain, 0.10),
    "layers": (sample_layers, 0.06),
    "errand": (sample_errand, 0.07),
    "bandit": (sample_bandit, 0.04),
    "queue": (sample_queue, 0.05),
    "inventory": (sample_inventory, 0.06),
    "replacement": (sample_replacement, 0.05),
    "gamble": (sample_gamble, 0.04),
    "energy": (sample_energy, 0.04),
    "pursuit": (sample_pursuit, 0.03),
}
FAMILIES: Mapping[str, Family] = MappingProxyType({name: family for name, (family, _) in _SHARES.items()})
MIXTURE: Mapping[str, float] = MappingProxyType({name: share for name, (_, share) in _SHARES.items()})

USUAL_HORIZONS = (10.0, 100.0)  # 1/(1 − γ) for γ from 0.9 to 0.99


@dataclass(frozen=True)
class WorldConfig:
    """How large worlds are, how far ahead they look and how often each family occurs."""

    n_states: tuple[int, int] = (3, 80)
    n_actions: tuple[int, int] = (2, 10)
    discount: tuple[float, float] = (0.8, 0.999)
    families: dict[str, float] = field(default_factory=lambda: dict(MIXTURE))  # weights; a family left out has none

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("n_states", "n_actions"):
            check_range(name, getattr(self, name), least=2)
        low_discount, high_discount = self.discount
        if not 0 <= low_discount <= high_discount < 1:
            limit = "it must be (low, high) with 0 ≤ low ≤ high < 1"
            raise MdpfnError("discount", self.discount, limit, "use a range such as (0.8, 0.999)")
        unknown = self.families.keys() - FAMILIES.keys()
        if unknown:
            raise MdpfnError("families", sorted(unknown), f"the families are {', '.join(FAMILIES)}", "correct the name")
        if not self.families or min(self.families.values()) < 0 or sum(self.families.values()) == 0:
            limit = "weights must not be negative and one must be positive"
            raise MdpfnError("families", self.families, limit, "correct the weights")


def sample_world(
    rng: np.random.Generator, config: WorldConfig | None = None, size_quantile: float | None = None
) -> TabularMDP:
    """One MDP in which there is something to decide, of a given rank among the sizes if `size_quantile` says so.

    S and A are log-uniform, which are wishes that a family may stay below. The family draws the world, overlays change
    its start and rewards, and ids are shuffled.
    """
    config = config or WorldConfig()
    n_states = sample_n_states(rng, *config.n_states, size_quantile)
    n_actions = sample_n_states(rng, *config.n_actions)
    discount = sample_discount(rng, *config.discount)
    weight = np.cumsum(list(config.families.values()))
    family = FAMILIES[list(config.families)[np.searchsorted(weight, rng.random() * weight[-1], side="right")]]
    while True:
        mdp = with_other_start(rng, family(rng, n_states, n_actions))
        mdp = replace(with_trembling_hand(rng, with_other_rewards(rng, mdp)), discount=discount)
        if not is_trivial(mdp):
            return with_new_names(rng, with_noise(rng, mdp), n_actions)


def sample_discount(rng: np.random.Generator, lowest: float, highest: float) -> float:
    """γ with 1/(1 − γ) log-uniform; if these are among them, in half of the worlds over the horizons people choose."""
    horizons = 1 / (1 - lowest), 1 / (1 - highest)
    if horizons[0] < USUAL_HORIZONS[0] and horizons[1] > USUAL_HORIZONS[1] and coin(rng, 0.5):
        horizons = USUAL_HORIZONS
    return 1 - 1 / log_uniform(rng, *horizons)


def sample_worlds(rng: np.random.Generator, n: int, config: WorldConfig | None = None) -> list[TabularMDP]:
    """`n` worlds whose sizes are stratified: each follows the prior, and together they are spread evenly over it."""
    config = config or WorldConfig()
    quantiles = (np.arange(n) + rng.random(n)) / n
    return [sample_world(rng, config, float(quantile)) for quantile in quantiles]
