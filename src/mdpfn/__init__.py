"""A prior-fitted network for Markov decision processes.

Names are loaded when they are first used, so that `import mdpfn` stays fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mdpfn.errors import MdpfnError
from mdpfn.version import __version__

if TYPE_CHECKING:
    from mdpfn.interface.agent import Agent
    from mdpfn.interface.discretize import Discretize
    from mdpfn.interface.plan import Plan
    from mdpfn.interface.result import Result
    from mdpfn.mdp import TabularMDP
    from mdpfn.statistics import Statistics
    from mdpfn.weights import load_model

_HOME = {
    "Agent": "mdpfn.interface.agent",
    "Discretize": "mdpfn.interface.discretize",
    "Plan": "mdpfn.interface.plan",
    "Result": "mdpfn.interface.result",
    "Statistics": "mdpfn.statistics",
    "TabularMDP": "mdpfn.mdp",
    "load_model": "mdpfn.weights",
}

__all__ = [
    "Agent",
    "Discretize",
    "MdpfnError",
    "Plan",
    "Result",
    "Statistics",
    "TabularMDP",
    "__version__",
    "load_model",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'mdpfn' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
