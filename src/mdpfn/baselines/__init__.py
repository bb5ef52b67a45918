"""Classical learners to compare with. Adding one: one file, and one line here."""

from collections.abc import Callable

from mdpfn.baselines.behaviour_cloning import BehaviourCloning
from mdpfn.baselines.certainty_equivalence import CertaintyEquivalence
from mdpfn.baselines.psrl import PSRL
from mdpfn.baselines.q_learning import UCBH, QLearning
from mdpfn.baselines.rmax import RMax
from mdpfn.baselines.spibb import SPIBB
from mdpfn.baselines.ucbvi import UCBVI
from mdpfn.baselines.uniform import Uniform
from mdpfn.baselines.vi_lcb import VILCB
from mdpfn.online.learner import Learner

BASELINES: dict[str, Callable[..., Learner]] = {
    "ucbvi": UCBVI,
    "psrl": PSRL,
    "q-learning": QLearning,
    "ucb-h": UCBH,
    "r-max": RMax,
    "certainty-equivalence": CertaintyEquivalence,
    "uniform": Uniform,
}

OFFLINE_BASELINES: dict[str, Callable[..., Learner]] = {
    "vi-lcb": VILCB,
    "spibb": SPIBB,
    "certainty-equivalence": CertaintyEquivalence,
    "behaviour-cloning": BehaviourCloning,
}

__all__ = [
    "BASELINES", "OFFLINE_BASELINES", "PSRL", "SPIBB", "UCBH", "UCBVI", "VILCB", "BehaviourCloning",
    "CertaintyEquivalence", "QLearning", "RMax", "Uniform",
]  # fmt: skip
