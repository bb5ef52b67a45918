"""Named benchmark MDPs. Adding a family: one file, and one line here."""

from mdpfn.environments import frozen_lake, gridworld
from mdpfn.environments.base import Environment
from mdpfn.environments.simulator import Simulator

FAMILIES = (gridworld, frozen_lake)

ENVIRONMENTS: dict[str, Environment] = {
    environment.name: environment for family in FAMILIES for environment in family.ENVIRONMENTS
}

__all__ = ["ENVIRONMENTS", "Environment", "Simulator"]
