"""The result of a run: returns, policy, value, coverage, steps and time; as text and as JSON."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from mdpfn.arrays import Floats, Ints
from mdpfn.checks import a_path
from mdpfn.coverage import Coverage, counted
from mdpfn.errors import MdpfnError
from mdpfn.online.in_context import InContextLearner
from mdpfn.online.problem import Problem
from mdpfn.online.vector_problem import VectorProblem
from mdpfn.pictures import SMOOTHING, plot_returns
from mdpfn.plan import Plan, support_of
from mdpfn.spaces.binned import Binned
from mdpfn.spaces.json import to_json
from mdpfn.storage import write_json, write_text
from mdpfn.worth import Improvement, PolicyLike, PolicyValue, Regret, Worth

NOTHING = 1e-12  # of a value: less is rounding


@dataclass(frozen=True, eq=False)
class Result:
    """What an agent learned in a run, online or offline. Without episodes, returns and lengths are empty."""

    plan: Plan
    coverage: Coverage
    returns: Floats  # (episodes,) undiscounted return of each episode, exploration included
    evaluation: Floats  # (evaluation episodes,) undiscounted returns of the final policy; empty if there were none
    lengths: Ints  # (episodes,)
    n_transitions: int  # observed
    seconds: float
    discount: float
    weights: str
    columns: Mapping[str, str | list[str]] | None = None  # which column of the data was taken for what
    notes: Mapping[str, int] = field(default_factory=dict)  # what was left out of the data -> in how many rows

    @classmethod
    def of(cls, problem: Problem[InContextLearner], plan: Plan, evaluation: Floats, weights: str) -> Result:
        """The result of everything that happened in a problem so far."""
        starts = problem.history.start_states if problem.starts_known else None
        coverage = Coverage.of(problem.learner.evidence, starts, plan)
        return cls(plan=plan, coverage=coverage, **run_fields(problem, evaluation, weights))

    @property
    def policy(self) -> Floats:
        """(S, A) π(a | s)."""
        return self.plan.policy

    @cached_property
    def _worth(self) -> Worth:
        """The evaluator of policies."""
        return Worth(self.plan, self.coverage.start_states)

    def evaluate(self, policy: PolicyLike, episodes: Any = None) -> PolicyValue:
        """The value of any policy, as in `Agent.evaluate`."""
        return self._worth.value(policy, episodes)

    @cached_property
    def value(self) -> PolicyValue:
        """The value of the recommended policy with its uncertainty; `value.by_state` has it for every state."""
        return self._worth.value(self.plan)

    @cached_property
    def improvement(self) -> Improvement:
        """By how much the recommended policy is better than the logged one, and with which probability."""
        return self._worth.improvement(self.plan.recommended)

    @cached_property
    def regret(self) -> Regret:
        """By how much the best possible policy may be better than the recommended one."""
        return self._worth.regret(self.plan.recommended)

    @property
    def support(self) -> list[str]:
        """(S,) whether data, the prior or both support the recommendation of each state."""
        chosen = self.coverage.n_visits[np.arange(len(self.coverage.n_visits)), self.plan.greedy]
        return [support_of(n) for n in chosen]

    @property
    def steps(self) -> int:
        """Steps of all finished episodes."""
        return int(self.lengths.sum())

    @property
    def by_what(self) -> str:
        """What made the plans, for the summary."""
        return f"with weights {self.weights!r}"

    def bin_lines(self) -> list[str]:
        """The bins that columns of numbers were cut into, if any, as lines of text."""
        space = self.plan.encoding and self.plan.encoding.observation_space
        return [str(space)] if isinstance(space, Binned) else []

    def run_lines(self) -> list[str]:
        """How the run went, as lines of text."""
        lines = []
        if len(self.returns):
            episodes, steps = counted(len(self.returns), "episode"), counted(self.steps, "step")
            lines.append(f"{episodes}, {steps}, {self.seconds:.2f} s {self.by_what}")
            earned = f"earned while learning: mean return {self.returns.mean():.4g}, "
            if len(self.returns) > SMOOTHING:
                earned += f"of the last {SMOOTHING} episodes {self.returns[-SMOOTHING:].mean():.4g}, "
            lines.append(f"{earned}best {self.returns.max():.4g}")
        else:
            lines.append(f"{counted(self.n_transitions, 'transition')}, {self.seconds:.2f} s {self.by_what}")
        if self.columns is not None:
            names = {role: name if isinstance(name, str) else " + ".join(name) for role, name in self.columns.items()}
            lines.append("columns: " + ", ".join(f"{role} = {name}" for role, name in names.items()))
        lines += self.bin_lines()
        lines += [f"{n} {note}" for note, n in self.notes.items()]
        if len(self.evaluation):
            error = self.evaluation.std() / np.sqrt(len(self.evaluation))
            lines.append(
                f"the final policy earns {self.evaluation.mean():.4g} ± {error:.2g} "
                f"(mean return of {len(self.evaluation)} evaluation episodes)"
            )
        return lines

    def __repr__(self) -> str:
        return f"Result({len(self.returns)} episodes, {self.n_transitions} transitions, {self.plan!r})"

    def __str__(self) -> str:
        lines = self.run_lines()
        if self.n_transitions:
            where = "at the start" if self.coverage.start_states else "in the states of the data"
            known = np.abs(self.value.draws).max() > NOTHING
            value = str(self.value) if known else "not known yet, as nothing was seen that pays or costs"
            lines.append(f"value of the final policy {where}, discount {self.discount:g}: {value}")
            lines.append(f"still to be gained: {self.regret}")
            if not len(self.returns):  # a log: somebody decided before
                lines.append(f"better than the policy of the data by {self.improvement}")
        return "\n".join([*lines, str(self.coverage)])

    def run_dict(self) -> dict[str, Any]:
        """How the run went, for JSON."""
        return {
            "weights": self.weights,
            "discount": self.discount,
            "returns": self.returns.tolist(),
            "lengths": self.lengths.tolist(),
            "evaluation": self.evaluation.tolist(),
            "n_transitions": self.n_transitions,
            "seconds": self.seconds,
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything but the coverage, for JSON."""
        return self.run_dict() | {
            "states": [str(state) for state in self.plan.states],
            "actions": [str(action) for action in self.plan.actions],
            "policy": self.policy.tolist(),
            "greedy": [
                None if end else int(a) for a, end in zip(self.plan.greedy, self.coverage.terminal, strict=True)
            ],
            "q_quantiles": to_json(self.plan.q_quantiles),
            "quantile_levels": list(self.plan.quantile_levels),
            "support": self.support,
            "value": self.value.by_state.tolist(),
            "start_value": self.value.to_dict(),
            "improvement": self.improvement.to_dict(),
            "regret": self.regret.to_dict(),
            "n_visits": self.coverage.n_visits.tolist(),
        }

    def save(self, path: str | Path) -> None:
        """Write `to_dict` as JSON."""
        write_json(a_path(path), self.to_dict())

    def save_policy(self, path: str | Path) -> None:
        """Write a CSV with a row per state.

        Its name, the recommended action, its value, where Q* of the action lies with 90 % probability, what carries
        these numbers, and for every action its probability and visits. Nothing is recommended in terminal states.
        """
        actions = [str(action) for action in self.plan.actions]
        header = ["state", "action", "value", "q_low", "q_high", "support"]
        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*header, *(f"p({a})" for a in actions), *(f"n({a})" for a in actions)])
        for i, state in enumerate(self.plan.states):
            numbers = [*self.policy[i].round(6).tolist(), *self.coverage.n_visits[i].astype(int).tolist()]
            value, best = round(float(self.value.by_state[i]), 6), int(self.plan.greedy[i])
            chosen: list[Any] = ["", value, "", "", ""]
            if not self.coverage.terminal[i]:
                interval = (
                    (round(float(q[i, best]), 6) for q in self.plan.interval())
                    if self.plan.quantile_levels
                    else ("", "")
                )
                chosen = [actions[best], value, *interval, self.support[i]]
            writer.writerow([state, *chosen, *numbers])
        write_text(a_path(path), text.getvalue())

    def plot(self, path: str | Path) -> None:
        """Draw the learning curve to a file (PNG, PDF or SVG by its name)."""
        if len(self.returns) == 0:
            limit = "a learning curve needs at least one finished episode"
            raise MdpfnError("the number of episodes", 0, limit, "solve an environment first")
        plot_returns({self.weights: self.returns}, a_path(path))


def run_fields(problem: Problem[InContextLearner] | VectorProblem, evaluation: Floats, weights: str) -> dict[str, Any]:
    """The fields of a result that say how the run went."""
    return {
        "returns": np.array(problem.history.returns, dtype=np.float64),
        "lengths": np.array(problem.history.lengths, dtype=np.int64),
        "evaluation": evaluation,
        "n_transitions": problem.learner.evidence.n_transitions,
        "seconds": problem.history.seconds,
        "discount": problem.options.discount,
        "weights": weights,
        "columns": problem.columns,
        "notes": problem.notes,
    }
