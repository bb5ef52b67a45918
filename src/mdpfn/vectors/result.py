"""The result of a run with vector observations: returns, evaluation, transitions and nodes, but no table of states."""

from pathlib import Path
from typing import Any, NoReturn

from mdpfn.arrays import Floats
from mdpfn.checks import a_path
from mdpfn.errors import MdpfnError
from mdpfn.online.vector_learner import VectorLearner
from mdpfn.online.vector_problem import VectorProblem
from mdpfn.result import Result, run_fields
from mdpfn.spaces.codec import Codec
from mdpfn.vectors.phase_portrait import plot_values
from mdpfn.worth import PolicyLike


class NoTableError(MdpfnError, AttributeError):
    """What belongs to a table of states was asked for, where states are vectors."""


class VectorResult(Result):
    """The result of a run with vector observations.

    Returns, lengths and evaluation are those of `Result`. What belongs to a table of states (plan, policy, value,
    coverage) is not there, and says so.
    """

    n_nodes: int  # states that values are kept for
    learner: VectorLearner
    actions: Codec
    is_lost: bool  # whether it still looks for something that pays

    def __init__(self, problem: VectorProblem, evaluation: Floats, weights: str) -> None:
        plan = problem.learner.plan()
        known = run_fields(problem, evaluation, weights) | {
            "n_nodes": 0 if plan is None else len(plan.nodes),
            "learner": problem.learner,
            "actions": problem.encoding.actions,
            "is_lost": plan is not None and plan.is_lost,
        }
        for name, value in known.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("plan", "coverage") or hasattr(type(self), name):  # a property that needs one of them
            limit = "observations are vectors, so that there is no table of states"
            remedy = "use predict; for a table, cut an environment by mdpfn.Discretize or a log by bins="
            raise NoTableError(f"result.{name}", "not there", limit, remedy)
        raise AttributeError(name)

    def evaluate(self, policy: PolicyLike, episodes: Any = None) -> NoReturn:
        """Refused: only where states are counted are there values of policies."""
        limit = "values of policies need states that are counted, and observations are vectors"
        remedy = "cut an environment by mdpfn.Discretize or a log by bins="
        raise NoTableError("the value of a policy", "not there", limit, remedy)

    @property
    def by_what(self) -> str:
        """What made the plans, for the summary: no network reads vectors."""
        return "by smoothing, without weights"

    def bin_lines(self) -> list[str]:
        """None, as vectors are not cut into bins."""
        return []

    def __repr__(self) -> str:
        return f"VectorResult({len(self.returns)} episodes, {self.n_transitions} transitions, {self.n_nodes} nodes)"

    def __str__(self) -> str:
        lines = self.run_lines()
        lines.append(f"{self.n_transitions} transitions of vectors, smoothed into values of {self.n_nodes} nodes")
        if self.n_nodes == 0:
            lines.append("too few transitions for a plan: actions are arbitrary")
        elif self.is_lost and len(self.returns):  # of a log it cannot look for anything
            lines.append("nothing that was seen tells good from bad yet: it still looks for something that pays")
        return "\n".join(lines)

    def plot_values(self, path: str | Path, dims: tuple[int, int] = (0, 1)) -> None:
        """Draw values over two dimensions of the observations, or the only one, with the policy and where data is."""
        plot_values(self.learner, self.actions, a_path(path), dims)

    def to_dict(self) -> dict[str, Any]:
        """Returns, lengths, evaluation and sizes, for JSON."""
        return self.run_dict() | {"n_nodes": self.n_nodes}
