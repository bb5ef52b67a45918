"""Everything that learns in an MDP it cannot see. Adding an agent: one file, and one line here."""

from collections.abc import Callable

from mdpfn.agents.base import Agent, Transition
from mdpfn.agents.behaviour_cloning import BehaviourCloning
from mdpfn.agents.certainty_equivalence import CertaintyEquivalence
from mdpfn.agents.in_context import InContext, replan_together
from mdpfn.agents.psrl import PSRL
from mdpfn.agents.q_learning import UCBH, QLearning
from mdpfn.agents.rmax import RMax
from mdpfn.agents.ucbvi import UCBVI
from mdpfn.agents.uniform import Uniform
from mdpfn.agents.vi_lcb import VILCB

AGENTS: dict[str, Callable[..., Agent]] = {
    "ucbvi": UCBVI,
    "psrl": PSRL,
    "q-learning": QLearning,
    "ucb-h": UCBH,
    "r-max": RMax,
    "certainty-equivalence": CertaintyEquivalence,
    "uniform": Uniform,
}

OFFLINE_AGENTS: dict[str, Callable[..., Agent]] = {
    "vi-lcb": VILCB,
    "certainty-equivalence": CertaintyEquivalence,
    "behaviour-cloning": BehaviourCloning,
}

__all__ = [
    "AGENTS",
    "OFFLINE_AGENTS",
    "PSRL",
    "UCBH",
    "UCBVI",
    "VILCB",
    "Agent",
    "BehaviourCloning",
    "CertaintyEquivalence",
    "InContext",
    "QLearning",
    "RMax",
    "Transition",
    "Uniform",
    "replan_together",
]
