"""A prior-fitted network for Markov decision processes.

Names are loaded when they are first used, so that `import mdpfn` stays fast.
"""

import importlib
from typing import TYPE_CHECKING, Any

from mdpfn.errors import MdpfnError
from mdpfn.version import __version__

if TYPE_CHECKING:
    from mdpfn.agent import Agent
    from mdpfn.coverage import Coverage, CoverageWarning
    from mdpfn.data.reader import NeverLeftWarning
    from mdpfn.evidence import Evidence, Novelty, PairTable, Statistics, Transition
    from mdpfn.evidence.smoothed import SmoothedEvidence
    from mdpfn.evidence.smoothed.memory import Batch
    from mdpfn.explanation import ActionEvidence, Explanation
    from mdpfn.model.mdp import TabularMDP
    from mdpfn.online.callback import Callback
    from mdpfn.online.history import History
    from mdpfn.online.options import Options
    from mdpfn.plan import Plan, UnknownStateWarning
    from mdpfn.result import Result
    from mdpfn.spaces.discretize import Discretize
    from mdpfn.spaces.squashed import SquashedGaussian
    from mdpfn.vectors.explanation import VectorExplanation
    from mdpfn.vectors.result import VectorResult
    from mdpfn.weights import Model, load_model
    from mdpfn.weights.limits import Limits
    from mdpfn.worth import ImportanceCheck, Improvement, PolicyValue, Regret, Risk, Worth

_HOME = {
    "ActionEvidence": "mdpfn.explanation",
    "Agent": "mdpfn.agent",
    "Batch": "mdpfn.evidence.smoothed.memory",
    "Callback": "mdpfn.online.callback",
    "Coverage": "mdpfn.coverage",
    "CoverageWarning": "mdpfn.coverage",
    "Discretize": "mdpfn.spaces.discretize",
    "Evidence": "mdpfn.evidence",
    "Explanation": "mdpfn.explanation",
    "History": "mdpfn.online.history",
    "ImportanceCheck": "mdpfn.worth",
    "Improvement": "mdpfn.worth",
    "Limits": "mdpfn.weights.limits",
    "Model": "mdpfn.weights",
    "NeverLeftWarning": "mdpfn.data.reader",
    "Novelty": "mdpfn.evidence",
    "Options": "mdpfn.online.options",
    "PairTable": "mdpfn.evidence",
    "Plan": "mdpfn.plan",
    "PolicyValue": "mdpfn.worth",
    "Regret": "mdpfn.worth",
    "Result": "mdpfn.result",
    "Risk": "mdpfn.worth",
    "SmoothedEvidence": "mdpfn.evidence.smoothed",
    "SquashedGaussian": "mdpfn.spaces.squashed",
    "Statistics": "mdpfn.evidence",
    "TabularMDP": "mdpfn.model.mdp",
    "Transition": "mdpfn.evidence",
    "UnknownStateWarning": "mdpfn.plan",
    "VectorExplanation": "mdpfn.vectors.explanation",
    "VectorResult": "mdpfn.vectors.result",
    "Worth": "mdpfn.worth",
    "load_model": "mdpfn.weights",
}

__all__ = [
    "ActionEvidence", "Agent", "Batch", "Callback", "Coverage", "CoverageWarning", "Discretize", "Evidence",
    "Explanation", "History", "ImportanceCheck", "Improvement", "Limits", "MdpfnError", "Model", "NeverLeftWarning",
    "Novelty", "Options", "PairTable", "Plan", "PolicyValue", "Regret", "Result", "Risk", "SmoothedEvidence",
    "SquashedGaussian", "Statistics", "TabularMDP", "Transition", "UnknownStateWarning", "VectorExplanation",
    "VectorResult", "Worth", "__version__", "load_model",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'mdpfn' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
