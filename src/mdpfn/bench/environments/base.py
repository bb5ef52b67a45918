"""A named MDP of the benchmark."""

from collections.abc import Callable
from dataclasses import dataclass

from mdpfn.model.mdp import TabularMDP


@dataclass(frozen=True)
class Environment:
    """One benchmark problem. `build` makes its MDP; episodes are truncated after `horizon` steps."""

    name: str
    family: str
    source: str  # where the problem comes from: a citation, a package with its version, or a file
    horizon: int
    build: Callable[[], TabularMDP]
    checksum: str = ""  # of the file the problem was read from
