"""What an agent would do: a policy for every state, and how much a pair may be worth."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints
from mdpfn.checks import checked_action_mask
from mdpfn.errors import MdpfnError
from mdpfn.evidence import PairTable
from mdpfn.exploration.held import held_policy
from mdpfn.planners.policies import best_actions, greedy_actions, softmax
from mdpfn.planners.posterior import QPosterior
from mdpfn.planners.problem_info import ProblemInfo
from mdpfn.spaces.codec import Codec
from mdpfn.spaces.encoding import SpaceEncoding

TAKE_OVER_VISITS = 3.0  # per pair of known states: there, data and network say equally much about Q*
PLAUSIBLE = 1.0  # logits below the best one, and an action may still be chosen for its quantiles


@dataclass(frozen=True, eq=False)
class Plan:
    """A policy for every state, one row each: row i belongs to `states[i]`, column j to `actions[j]`."""

    policy_logits: Floats  # (S, A) u(s, a); only differences within a row mean something
    network_quantiles: Floats | None = None  # (S, A, levels) of Q*(s, a); None where the weights have none
    quantile_levels: tuple[float, ...] = ()
    risk: float | None = None  # the quantile that `greedy` goes by; None: it goes by the policy
    unknown: Bools | None = None  # (S,) states of which nothing is known; None where the weights do not tell
    planned_from: tuple[PairTable, ProblemInfo] | None = field(default=None, repr=False)
    encoding: SpaceEncoding | None = field(default=None, repr=False)

    @cached_property
    def policy(self) -> Floats:
        """(S, A) π(a | s) = softmax_a u(s, a)."""
        return softmax(self.policy_logits)

    @cached_property
    def greedy(self) -> Ints:
        """(S,) the column of the best action of each state: what `predict` returns and what benchmarks score.

        The first one where several are equally good; in `unknown` states, which all look alike, actions by turns.
        With a `risk` it is the one with the best such quantile of Q* among those that the policy hardly tells apart,
        by the policy where these are equal: quantiles err by more than actions differ that are clearly better or worse.
        """
        if self.risk is None:
            return greedy_actions(self.policy_logits, self.unknown)
        plausible = self.policy_logits >= self.policy_logits.max(axis=1, keepdims=True) - PLAUSIBLE
        q = np.where(plausible, self.q_at(self.risk), -np.inf)
        return best_actions(np.where(q == q.max(axis=1, keepdims=True), self.policy_logits, -np.inf))

    def action(self, state: int, mask: Bools | None = None, rng: np.random.Generator | None = None) -> int:
        """The best action of a state, of those that a mask (A,) allows; with `rng`, one drawn from the policy.

        A state that never appeared is like any other of which nothing is known.
        """
        row = state
        if state >= len(self.greedy):
            alike = [] if self.unknown is None else np.flatnonzero(self.unknown).tolist()
            row = alike[0] if alike else 0
        logits = self.policy_logits[row] if mask is None else np.where(mask, self.policy_logits[row], -np.inf)
        if rng is not None:
            return int(rng.choice(len(logits), p=softmax(logits[None])[0]))
        best = int(self.greedy[row])
        return best if mask is None or mask[best] else int(logits.argmax())

    def predict(self, observation: Any, action_mask: Any = None, rng: np.random.Generator | None = None) -> Any:
        """The action for one observation, or the actions for a batch of them, as the environment calls them."""
        assert self.encoding is not None
        states, actions = self.encoding.states, self.encoding.actions

        def action_of(one: Any, given: Any) -> Any:
            mask = None if given is None else np.array(checked_action_mask(given, actions.n))
            return actions.decode(self.action(states.find(one), mask, rng))

        if not states.is_batch(observation):
            return action_of(observation, action_mask)
        single = states.unbatch(observation)
        masks = [action_mask] * len(single) if np.ndim(action_mask) < 2 else list(action_mask)
        return actions.batch(list(map(action_of, single, masks)))

    @cached_property
    def q_quantiles(self) -> Floats | None:
        """(S, A, levels) quantiles of Q*(s, a): the network's, then, as visits grow, those of the data alone.

        None where the weights have none. Actions that do not exist have −∞.
        """
        if self.network_quantiles is None or self.planned_from is None or not len(self.planned_from[0].pair):
            return self.network_quantiles
        table, info = self.planned_from
        posterior = QPosterior.of(table, info, np.random.default_rng(0))
        share = posterior.n_visits**2 / (posterior.n_visits**2 + TAKE_OVER_VISITS**2)
        q = share * posterior.quantiles(self.quantile_levels) + (1 - share) * self.network_quantiles
        return np.where(np.isfinite(self.network_quantiles), q, -np.inf)

    def q_at(self, level: float) -> Floats:
        """(S, A) the quantile of Q*(s, a) at a level between the outermost ones, interpolated."""
        levels = self.quantile_levels
        check_level(level, levels)
        quantiles = self.q_quantiles
        assert quantiles is not None
        above = int(np.searchsorted(levels, level))
        below = max(above - 1, 0)
        share = (level - levels[below]) / (levels[above] - levels[below]) if above > below else 0.0
        q: Floats = (1 - share) * quantiles[..., below] + share * quantiles[..., above]
        return q

    @cached_property
    def exploration(self) -> Floats:
        """(S, A) a policy to gather more data by, if `act` and `observe` cannot be used: it leads to the unseen."""
        assert self.planned_from is not None
        return held_policy(*self.planned_from)

    @cached_property
    def states(self) -> list[Any]:
        """The states, as the environment or the data calls them."""
        return _names(self.encoding.states if self.encoding else None, len(self.policy_logits))

    @cached_property
    def actions(self) -> list[Any]:
        """The actions, as the environment or the data calls them."""
        return _names(self.encoding.actions if self.encoding else None, self.policy_logits.shape[1])


def check_level(level: float, levels: tuple[float, ...]) -> None:
    """Refuse a level that weights with quantiles at these `levels` cannot tell."""
    if not levels:
        raise MdpfnError("risk", level, "these weights have no quantiles of Q*", "use others, or no risk")
    if not levels[0] <= level <= levels[-1]:
        limit = f"it must lie in {levels[0]:g} … {levels[-1]:g}"
        raise MdpfnError("risk", level, limit, "low values avoid risk, high ones seek it")


def _names(codec: Codec | None, n: int) -> list[Any]:
    return list(range(n)) if codec is None else [codec.decode(number) for number in range(min(n, codec.n))]
