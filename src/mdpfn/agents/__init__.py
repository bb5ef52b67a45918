"""Everything that learns in an MDP it cannot see. Adding an agent: one file, and one line here."""

from collections.abc import Callable

from mdpfn.agents.base import Agent, Transition
from mdpfn.agents.in_context import InContext, replan_together
from mdpfn.agents.q_learning import UCBH, QLearning
from mdpfn.agents.ucbvi import UCBVI
from mdpfn.agents.uniform import Uniform

AGENTS: dict[str, Callable[..., Agent]] = {
    "ucbvi": UCBVI,
    "q-learning": QLearning,
    "ucb-h": UCBH,
    "uniform": Uniform,
}

__all__ = ["AGENTS", "UCBH", "UCBVI", "Agent", "InContext", "QLearning", "Transition", "Uniform", "replan_together"]
