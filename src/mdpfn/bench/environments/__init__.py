"""Named benchmark MDPs. Adding a family: one file, and one line here."""

from mdpfn.bench.environments import (
    asset_selling,
    bandit,
    car_rental,
    chain,
    combination_lock,
    deep_sea,
    forest,
    frozen_lake,
    gambler,
    garnet,
    gridworld,
    gymnasium_adapter,
    inventory,
    machine_replacement,
    maze,
    queue,
    recycling_robot,
    river_swim,
    six_arms,
    textbook_grid,
    toy_text,
    windy_grid,
)
from mdpfn.bench.environments.base import Environment
from mdpfn.bench.environments.files import load_environment, load_environments, save_environment
from mdpfn.bench.environments.gymnasium_adapter import TabularEnv, from_gymnasium_table
from mdpfn.bench.environments.simulator import Simulator

FILES = (
    gridworld, frozen_lake, toy_text, textbook_grid, windy_grid, maze, river_swim, six_arms, chain, deep_sea,
    combination_lock, machine_replacement, forest, inventory, queue, car_rental, gambler, asset_selling,
    recycling_robot, garnet, bandit,
)  # fmt: skip

ENVIRONMENTS: dict[str, Environment] = {
    environment.name: environment for file in FILES for environment in file.ENVIRONMENTS
}

gymnasium_adapter.register()

__all__ = [
    "ENVIRONMENTS", "Environment", "Simulator", "TabularEnv", "from_gymnasium_table", "load_environment",
    "load_environments", "save_environment",
]  # fmt: skip
