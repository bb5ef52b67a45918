"""Why an action is recommended for a vector observation: action values, and the nearest observed transitions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdpfn.checks import a_path
from mdpfn.online.vector_problem import VectorProblem
from mdpfn.pictures import new_picture, save_picture
from mdpfn.spaces.json import to_json

NEAREST = 3  # transitions of every action
SHOWN = 5  # actions, in words
FAR = 2.0  # standard deviations: beyond, what was seen says little


@dataclass(frozen=True)
class NearTransition:
    """An observed transition and its distance, in standard deviations of the nodes."""

    distance: float
    observation: tuple[float, ...]
    reward: float
    next_observation: tuple[float, ...]
    terminated: bool


@dataclass(frozen=True)
class VectorActionEvidence:
    """What is known of one action in one observation."""

    action: Any
    value: float  # Q; 0 before the first plan
    probability: float  # π(a | x)
    nearest: tuple[NearTransition, ...]  # with this action, the nearest first

    def __str__(self) -> str:
        text = f"{self.action}: worth {self.value:.4g}"
        if not self.nearest:
            return f"{text}; never tried"
        near = self.nearest[0]
        led = "the end" if near.terminated else _shown(near.next_observation)
        where = f"{near.distance:.2g} standard deviations away"
        text += f"; the nearest time, {where}, it paid {near.reward:.4g} and led to {led}"
        return f"{text}; that is far: a guess" if near.distance > FAR else text


@dataclass(frozen=True)
class VectorExplanation:
    """What is recommended in an observation and why; `print` says it in words."""

    observation: tuple[float, ...]
    recommended: Any
    actions: tuple[VectorActionEvidence, ...]  # the best first

    @classmethod
    def of(cls, problem: VectorProblem, observation: Any) -> VectorExplanation:
        """The explanation of what `predict` returns there."""
        learner, codec = problem.learner, problem.encoding.actions
        x = np.asarray(problem.encoding.states.encode(observation))
        [q], [policy] = learner.action_values(x[None]), learner.policy(x[None])
        order = np.argsort(-q, kind="stable")
        actions = tuple(
            VectorActionEvidence(codec.decode(int(a)), float(q[a]), float(policy[a]), _nearest(problem, x, int(a)))
            for a in order
        )
        return cls(tuple(x.tolist()), actions[0].action, actions)

    def __str__(self) -> str:
        lines = [f"{_shown(self.observation)}: {self.recommended} is recommended."]
        lines += [f"  {action}" for action in self.actions[:SHOWN]]
        left = len(self.actions) - SHOWN
        return "\n".join([*lines, f"  and {left} more, none of them better"] if left > 0 else lines)

    def plot(self, path: str | Path) -> None:
        """Draw the value of every action, with the distance of its nearest observed transition."""
        shown = self.actions[::-1]
        figure = new_picture(6, 1.2 + 0.3 * len(shown))
        axes = figure.subplots()
        axes.plot([a.value for a in shown], range(len(shown)), "o", color="#2b6cb0")
        far = [f"{a.nearest[0].distance:.2g}" if a.nearest else "∞" for a in shown]
        axes.set_yticks(range(len(shown)), [f"{a.action}  ({d})" for a, d in zip(shown, far, strict=True)])
        axes.set(xlabel="Q", title=f"{_shown(self.observation)}: action (distance of its nearest evidence)")
        save_picture(figure, a_path(path))

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        plain: dict[str, Any] = to_json(asdict(self))
        return plain


def _nearest(problem: VectorProblem, x: Any, action: int) -> tuple[NearTransition, ...]:
    """Observed transitions of an action, the nearest first."""
    evidence = problem.learner.evidence
    if not len(evidence.memory):
        return ()
    rows, distance = evidence.nearest(x, action, NEAREST)
    columns = zip(distance, rows.x, rows.reward, rows.y, rows.ended, strict=True)
    return tuple(
        NearTransition(float(far), tuple(at.tolist()), float(reward), tuple(to.tolist()), bool(ended))
        for far, at, reward, to, ended in columns
    )


def _shown(x: tuple[float, ...]) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in x) + ")"
