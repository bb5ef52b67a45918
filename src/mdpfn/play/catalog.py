"""The worlds to choose from: some maps, and every environment of the benchmark."""

from typing import Any

from mdpfn.bench.environments import ENVIRONMENTS
from mdpfn.play.world import World

PRESETS = (
    World(
        (
            "S...#....",
            ".##.#.##.",
            ".#..r..#.",
            ".#.##..#.",
            "...X~~~..",
            "##.#~~~#.",
            "...#.X...",
            ".#...##.G",
        ),
        name="First steps",
    ),
    World(
        ("............", "............", ".~~~~~~~~~~.", "SXXXXXXXXXXG"),
        step_reward=-0.02,
        name="The icy cliff",
    ),
    World(
        (
            "..........",
            "....^^^...",
            "....^^^...",
            "S...^^^.G.",
            "....^^^...",
            "....^^^...",
            "..........",
        ),
        step_reward=-0.02,
        name="A windy crossing",
    ),
    World(
        (
            "#S......#",
            "#.#####.#",
            "#d#...#d#",
            "#.r.G.l.#",
            "#.#...#.#",
            "#.##.##.#",
            "#...X...#",
        ),
        prices={(3, 2): -0.4, (1, 1): -0.1},
        step_reward=-0.01,
        name="Doors and tolls",
    ),
    World(
        (
            "S..G........",
            ".##########.",
            "............",
            ".##########.",
            "...........G",
        ),
        prices={(0, 3): -0.8},
        name="Crumbs and treasure",
    ),
    World(
        ("S......", ".##.##.", ".#...#.", "...#...", ".#...#.", ".##.##.", "......G"),
        slip=0.2,
        name="Slippery floors",
    ),
)


def catalogue() -> dict[str, Any]:
    """The catalogue as JSON: maps, and environments by name and family."""
    environments = [
        {"name": environment.name, "family": environment.family, "source": environment.source}
        for environment in ENVIRONMENTS.values()
    ]
    return {"worlds": [world.to_json() for world in PRESETS], "environments": environments}
