"""Why an action is recommended: for every action of a state what was observed, where Q* lies, what could change it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdpfn.checks import a_path
from mdpfn.coverage import Coverage
from mdpfn.pictures import new_picture, save_picture
from mdpfn.plan import Plan, Support, pandas_frame, support_of
from mdpfn.spaces.json import to_json

LEVEL = 0.9  # of the intervals
SUCCESSORS = 5  # most frequent ones, that are named

COLOURS = {"data": "#2b6cb0", "data and prior": "#8aa9c9", "prior": "#c9c9c9"}


@dataclass(frozen=True)
class ActionEvidence:
    """What is known of one action in one state."""

    action: Any
    exists: bool  # whether action masks allow it
    n_visits: float
    mean_reward: float  # NaN if it was never taken
    successors: tuple[tuple[Any, float], ...]  # (state, share of the visits), the most frequent ones first
    terminated: float  # share of the visits after which the episode was over
    q_low: float  # Q*(s, a) lies between these two with 90 % probability; NaN where the weights have no quantiles …
    q_median: float
    q_high: float
    probability: float  # π(a | s)
    support: Support  # what carries these numbers

    def __str__(self) -> str:
        if not self.exists:
            return f"{self.action}: does not exist here"
        if not self.n_visits:
            text = f"{self.action}: never tried"
        else:
            led = [f"{state} ({share:.0%})" for state, share in self.successors]
            led += [f"the end ({self.terminated:.0%})"] if self.terminated else []
            text = f"{self.action}: tried {self.n_visits:g} times, mean reward {self.mean_reward:.4g}, "
            text += "led to " + ", ".join(led)
        if np.isfinite(self.q_median):
            text += f"; Q* {self.q_median:.4g}, with {LEVEL:.0%} in {self.q_low:.4g} … {self.q_high:.4g}"
        return f"{text}; carried by {'the ' + self.support.replace(' and ', ' and the ')}"


@dataclass(frozen=True)
class Explanation:
    """What is recommended in a state and why; `print` says it in words."""

    state: Any
    actions: tuple[ActionEvidence, ...]
    best: ActionEvidence | None  # of the recommended action; None where nothing follows, so that nothing is to decide

    @classmethod
    def of(cls, plan: Plan, coverage: Coverage, state: int, name: Any) -> Explanation:
        """The explanation of the recommendation for the state with this id, which may be one that never appeared."""
        known = state < len(plan.policy_logits)
        if known and coverage.terminal[state]:
            return cls(name, (), None)
        actions = tuple(_evidence(plan, coverage, state, a) for a in range(plan.policy_logits.shape[1]))
        return cls(name, actions, actions[plan.best_action(state)])

    @property
    def recommended(self) -> Any:
        """The recommended action; None where there is nothing to decide."""
        return None if self.best is None else self.best.action

    @property
    def runner_up(self) -> ActionEvidence | None:
        """The other action that may be better: whose interval reaches highest, or, without any, the most probable."""
        others = [a for a in self.actions if a.exists and a is not self.best]
        return max(others, key=lambda a: (a.q_high if np.isfinite(a.q_high) else 0.0, a.probability), default=None)

    @property
    def is_open(self) -> bool:
        """Whether more data may change the decision: the interval of another action overlaps with that of the best."""
        best, other = self.best, self.runner_up
        return best is not None and other is not None and not other.q_high < best.q_low

    @property
    def decision(self) -> str:
        """What would change the decision, in a sentence."""
        best, other = self.best, self.runner_up
        if best is None:
            return "Episodes end here, so there is nothing to decide."
        if other is None:
            return "It is the only action that exists here."
        if not np.isfinite(other.q_median):
            return f"The next best is {other.action}."
        if not self.is_open:
            return f"All others are worse: not even the interval of {other.action} reaches that of {best.action}."
        more = f"more data on {best.action} or {other.action} may change it"
        if other.q_median >= best.q_median:
            return f"{other.action} looks as good: {more}."
        where = "within" if other.q_high >= best.q_median else "beyond"
        bar = f"if it were worth more than {best.q_median:.4g} instead of {other.q_median:.4g}, {where} its interval"
        return f"{other.action} would be chosen {bar}: {more}."

    def __str__(self) -> str:
        if self.best is None:
            return f"{self.state}: episodes end here, so there is nothing to decide."
        lines = [f"{self.state}: {self.recommended} is recommended. {self.decision}"]
        ranked = sorted(self.actions, key=lambda a: (a is not self.best, -a.probability))
        return "\n".join([*lines, *(f"  {action}" for action in ranked)])

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        content = {"state": self.state, "recommended": self.recommended, "actions": [asdict(a) for a in self.actions]}
        plain: dict[str, Any] = to_json(content)
        return plain

    def to_frame(self) -> Any:
        """A pandas frame with a row per action."""
        names = ActionEvidence.__dataclass_fields__
        return pandas_frame({name: [getattr(action, name) for action in self.actions] for name in names})

    def plot(self, path: str | Path) -> None:
        """Draw the interval of Q* of every action to a file (PNG, PDF or SVG by its name)."""
        shown = [a for a in self.actions if a.exists][::-1]
        figure = new_picture(6, 1.2 + 0.4 * len(shown))
        axes = figure.subplots()
        for place, action in enumerate(shown):
            colour = COLOURS[action.support]
            axes.plot([action.q_low, action.q_high], [place, place], color=colour, lw=5, solid_capstyle="round")
            axes.plot(action.q_median, place, "o", color="white", markeredgecolor=colour, markersize=9, mew=2)
        labels = [f"{'▸ ' if a is self.best else ''}{a.action}  (n = {a.n_visits:g})" for a in shown]
        axes.set_yticks(range(len(shown)), labels)
        axes.set(xlabel=f"Q*, median and {LEVEL:.0%} interval", title=f"{self.state}", ylim=(-0.6, len(shown) - 0.4))
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        for support in dict.fromkeys(a.support for a in shown):
            axes.plot([], [], color=COLOURS[support], lw=5, label=support)
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
        save_picture(figure, a_path(path))


def _evidence(plan: Plan, coverage: Coverage, state: int, action: int) -> ActionEvidence:
    """What is known of an action; in a state that never appeared, only what the prior says of unknown states."""
    known, row = state < len(plan.policy_logits), plan.row(state)
    exists = row is None or bool(coverage.exists[row, action])
    n_visits = float(coverage.n_visits[state, action]) if known else 0.0
    low, median, high = np.full(3, np.nan)
    if exists and row is not None and plan.quantile_levels:
        low, high = (q[row, action] for q in plan.interval(LEVEL))
        median = plan.q_at(0.5)[row, action]
    mean_reward, successors, terminated = _seen(plan, state, action) if n_visits else (np.nan, (), 0.0)
    return ActionEvidence(
        action=plan.actions[action],
        exists=exists,
        n_visits=n_visits,
        mean_reward=mean_reward,
        successors=successors,
        terminated=terminated,
        q_low=float(low),
        q_median=float(median),
        q_high=float(high),
        probability=float(plan.policy_of(state)[action]),
        support=support_of(n_visits),
    )


def _seen(plan: Plan, row: int, action: int) -> tuple[float, tuple[tuple[Any, float], ...], float]:
    """Mean reward, successors with their shares, and share of terminations of a visited pair, as observed."""
    assert plan.observed is not None
    table = plan.observed
    pair = int(np.searchsorted(table.pair, row * plan.policy_logits.shape[1] + action))
    entries = np.flatnonzero(table.transition_row == pair)
    ended = table.n_terminated[entries]
    shares = (table.transition_count[entries] - ended) / table.n_visits[pair]
    ranked = [i for i in np.argsort(-shares, kind="stable")[:SUCCESSORS] if shares[i] > 0]
    successors = tuple((plan.states[table.successor[entries[i]]], float(shares[i])) for i in ranked)
    return float(table.mean_reward[pair]), successors, float(ended.sum() / table.n_visits[pair])
