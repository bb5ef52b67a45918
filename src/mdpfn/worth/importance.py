"""The value of a policy from episodes of another one, by importance weights (off-policy evaluation).

A check of values that come from a model: where states do not tell everything that matters, a model may be wrong, while
weighted returns are right on average, if noisy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.errors import MdpfnError, shown
from mdpfn.spaces.encoding import SpaceEncoding


@dataclass(frozen=True)
class Steps:
    """One episode, after whose last step nothing follows."""

    state: list[int]
    action: list[int]
    reward: list[float]
    propensity: list[float] | None  # π_logged(a | s) of each step; None: as visits tell it


@dataclass(frozen=True)
class ImportanceCheck:
    """The value of a policy by episodes of another one, averaged over these."""

    weighted: float  # per-decision importance sampling, self-normalized (Precup et al. 2000)
    doubly_robust: float  # with the model's values where weights say little (Jiang and Li 2016)
    standard_error: float  # of the doubly robust one
    n_episodes: int
    effective_episodes: float  # (Σ w)² / Σ w² of whole episodes' weights

    def __str__(self) -> str:
        return (
            f"{self.doubly_robust:.4g} ± {self.standard_error:.2g} doubly robust, {self.weighted:.4g} by weights "
            f"alone, from {self.n_episodes} episodes that are worth {self.effective_episodes:.3g}"
        )

    @classmethod
    def of(
        cls, episodes: Sequence[Steps], policy: Floats, logged: Floats, q: Floats, discount: float
    ) -> ImportanceCheck:
        """For π (S, A), the logged policy (S, A) and Q of π by a model (S, A).

        V(t) = V̂(s) + ρ (r + γ V(t + 1) − Q̂(s, a)) with ρ = π(a | s) / π_logged(a | s), backwards from 0.
        """
        robust = np.array([_doubly_robust(steps, policy, logged, q, discount) for steps in episodes])
        ratios = [np.cumprod(_ratios(steps, policy, logged)) for steps in episodes]
        longest = max(len(r) for r in ratios)
        padded = np.stack([np.append(r, np.full(longest - len(r), r[-1])) for r in ratios])  # (episodes, steps)
        rewards = np.stack([np.append(s.reward, np.zeros(longest - len(s.reward))) for s in episodes])
        total = padded.sum(axis=0)
        share = np.divide(padded, total, out=np.zeros_like(padded), where=total > 0)
        last = padded[:, -1]
        return cls(
            weighted=float((share * rewards * discount ** np.arange(longest)).sum()),
            doubly_robust=float(robust.mean()),
            standard_error=float(robust.std(ddof=1) / np.sqrt(len(robust))) if len(robust) > 1 else np.inf,
            n_episodes=len(episodes),
            effective_episodes=float(last.sum() ** 2 / (last**2).sum()) if last.any() else 0.0,
        )


def _ratios(steps: Steps, policy: Floats, logged: Floats) -> Floats:
    taken: Floats = policy[steps.state, steps.action]
    given = logged[steps.state, steps.action] if steps.propensity is None else np.array(steps.propensity)
    return taken / given


def _doubly_robust(steps: Steps, policy: Floats, logged: Floats, q: Floats, discount: float) -> float:
    value = 0.0
    ratios = _ratios(steps, policy, logged)
    for state, action, reward, ratio in reversed(
        list(zip(steps.state, steps.action, steps.reward, ratios, strict=True))
    ):
        expected = float(policy[state] @ np.where(policy[state] > 0, q[state], 0.0))
        value = expected + float(ratio) * (reward + discount * value - float(q[state, action]))
    return value


def read_episodes(episodes: Iterable[Iterable[Any]], encoding: SpaceEncoding, logged: Floats) -> list[Steps]:
    """Episodes as lists of (state, action, reward) or (state, action, reward, propensity), with names as in the log."""
    found = []
    if not isinstance(episodes, Iterable):
        limit = "it must be a list of episodes, each a list of steps"
        raise MdpfnError("episodes", shown(episodes), limit, "give (state, action, reward) for every step")
    for number, episode in enumerate(episodes):
        try:
            rows = [tuple(row) for row in episode]
        except TypeError:
            rows = []
        if not rows or any(len(row) != len(rows[0]) or len(row) not in (3, 4) for row in rows):
            limit = "its steps must be (state, action, reward) or (state, action, reward, propensity)"
            raise MdpfnError("episodes", f"episode {number}", limit, "give at least one such step")
        for row in rows:
            for what, value in zip(("reward", "propensity"), row[2:], strict=False):
                if not isinstance(value, Real) or not np.isfinite(float(value)):
                    where = f"{shown(value)} in episode {number}"
                    raise MdpfnError("episodes", where, f"a {what} is a finite number", "repair or drop that step")
        states = [encoding.find(row[0]) for row in rows]
        for row, state in zip(rows, states, strict=True):
            if state >= len(logged):
                limit = "this state is not in the log"
                raise MdpfnError("episodes", f"{shown(row[0])} in episode {number}", limit, "fit it first")
        propensities = [float(row[3]) for row in rows] if len(rows[0]) == 4 else None
        if propensities is not None and not all(0 < p <= 1 for p in propensities):
            bad = next(p for p in propensities if not 0 < p <= 1)
            limit = "a propensity lies in (0, 1]"
            raise MdpfnError("episodes", f"{bad} in episode {number}", limit, "give the probability of what was done")
        actions = [encoding.actions.encode(row[1]) for row in rows]
        for row, state, action in zip(rows, states, actions, strict=True):
            if propensities is None and logged[state, action] == 0:
                what = f"{shown(row[1])} in {shown(row[0])} in episode {number}"
                raise MdpfnError("episodes", what, "the log never does that", "give propensities, or fit it first")
        found.append(Steps(states, actions, [float(row[2]) for row in rows], propensities))
    if not found:
        raise MdpfnError("episodes", "none", "a check needs at least one", "leave it out to do without")
    return found
