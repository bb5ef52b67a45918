"""A plan: a policy for every state, with quantiles of Q*."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints
from mdpfn.checks import checked_action_mask, masks_of
from mdpfn.errors import MdpfnError, check_installed, shown
from mdpfn.evidence import PairTable
from mdpfn.exploration.held import held_policy
from mdpfn.planners.overruling import THIN_VISITS, overruled
from mdpfn.planners.policies import best_actions, greedy_actions, one_hot, softmax
from mdpfn.planners.posterior import ModelPosterior, ignorant_prior
from mdpfn.planners.problem_info import ProblemInfo, RewardRange
from mdpfn.planners.q_posterior import q_quantiles
from mdpfn.spaces.codec import Codec
from mdpfn.spaces.encoding import SpaceEncoding

PLAUSIBLE = 1.0  # logits below the best one, and an action may still be chosen for its quantiles
MOST_SHOWN = 20  # states that a printed plan lists

Support: TypeAlias = Literal["data", "data and prior", "prior"]
OnUnknown: TypeAlias = Literal["warn", "raise", "best"]
"""What `predict` does about a state of which nothing is known."""


class UnknownStateWarning(UserWarning):
    """An action was asked for in a state of which nothing is known."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A policy for every state, one row each: row i belongs to `states[i]`, column j to `actions[j]`."""

    policy_logits: Floats  # (S, A) u(s, a); only differences within a row mean something
    network_quantiles: Floats | None = None  # (S, A, levels) of Q*(s, a); None where the weights have none
    quantile_levels: tuple[float, ...] = ()
    risk: float | None = None  # the quantile that `greedy` goes by; None: it goes by the policy
    unknown: Bools | None = None  # (S,) states of which nothing is known; None where the weights do not tell
    planned_from: tuple[PairTable, ProblemInfo] | None = None
    observed: PairTable | None = None  # of what was seen, before noisy pairs were pooled
    rewards: RewardRange = (-np.inf, np.inf)  # the least and the largest that there can be, or that was seen
    encoding: SpaceEncoding | None = None
    safe_policy: Floats | None = None  # (S, A) with `at_least`; it may keep to the log

    def __repr__(self) -> str:
        n_states, n_actions = self.policy_logits.shape
        return f"Plan({n_states} states, {n_actions} actions)"

    def __str__(self) -> str:
        """The recommended action of the first few states in which there is a choice."""
        rows = np.flatnonzero(self.decides)
        lines = [
            f"{self.states[i]} -> {self.actions[self.greedy[i]]} ({self.policy[i, self.greedy[i]]:.0%})"
            for i in rows[:MOST_SHOWN]
        ]
        if len(rows) > MOST_SHOWN:
            lines.append(f"… and {len(rows) - MOST_SHOWN} more states: plan.to_frame() has them all")
        return "\n".join(lines or ["no state is known yet in which there is something to decide"])

    @cached_property
    def decides(self) -> Bools:
        """(S,) states that were reached and in which episodes go on."""
        if self.observed is None:
            return np.ones(len(self.policy_logits), dtype=bool)
        return self.observed.reached_mask() & ~self.observed.terminal_mask()

    @cached_property
    def policy(self) -> Floats:
        """(S, A) π(a | s) = the softmax of the scores, or the safe policy."""
        return softmax(self.scores) if self.safe_policy is None else self.safe_policy

    @cached_property
    def scores(self) -> Floats:
        """(S, A) the network's logits, overruled by the data where that leaves no doubt (`planners.overruling`)."""
        if self.network_quantiles is None or self.observed is None or not len(self.observed.pair):
            return self.policy_logits
        return overruled(self.policy_logits, self.posterior, self.discount)

    @cached_property
    def greedy(self) -> Ints:
        """(S,) the column of the best action of each state: what `predict` returns and what benchmarks score.

        The first one where several are equally good; in `unknown` states, which all look alike, actions by turns.
        With a `risk` it is the one with the best such quantile of Q* among those that the policy hardly tells apart,
        by the policy where these are equal: quantiles err by more than actions differ that are clearly better or worse.
        """
        if self.safe_policy is not None:
            return best_actions(self.safe_policy)
        if self.risk is None:
            return greedy_actions(self.scores, self.unknown)
        plausible = self.scores >= self.scores.max(axis=1, keepdims=True) - PLAUSIBLE
        q = np.where(plausible, self.q_at(self.risk), -np.inf)
        return best_actions(np.where(q == q.max(axis=1, keepdims=True), self.scores, -np.inf))

    @cached_property
    def recommended(self) -> Floats:
        """(S, A) the policy that `predict` follows."""
        return one_hot(self.greedy, self.policy_logits.shape[1]) if self.safe_policy is None else self.safe_policy

    @cached_property
    def _chance(self) -> np.random.Generator:
        """The random numbers of a safe policy, which mixes actions as often as the log did."""
        return np.random.default_rng(0)

    def action(self, state: int, mask: Bools | None = None, rng: np.random.Generator | None = None) -> int:
        """The best action of a state among those that a mask (A,) allows; with `rng`, one drawn from the policy."""
        if self.safe_policy is not None:
            chance = self.policy_of(state) if mask is None else self.policy_of(state) * mask
            if chance.any():
                return int((rng or self._chance).choice(len(chance), p=chance / chance.sum()))
        row = self.row(state)
        with np.errstate(divide="ignore"):  # actions that exist in no state
            logits = np.log(self.usual) if row is None else self.scores[row]
        if mask is not None:
            logits = np.where(mask, logits, -np.inf)
        if rng is not None:
            return int(rng.choice(len(logits), p=softmax(logits[None])[0]))
        best = self.best_action(state)
        return best if mask is None or mask[best] else int(logits.argmax())

    def best_action(self, state: int) -> int:
        """The column of the best action of a state."""
        row = self.row(state)
        return int(self.usual.argmax() if row is None else self.greedy[row])

    def policy_of(self, state: int) -> Floats:
        """(A,) π(a | s) of a state."""
        row = self.row(state)
        return self.usual if row is None else self.policy[row]

    def row(self, state: int) -> int | None:
        """The row of a state; for one that never appeared, that of some unknown state, or None if all are known."""
        if state < len(self.policy_logits):
            return state
        return None if self.unknown is None or not self.unknown.any() else int(self.unknown.argmax())

    @cached_property
    def usual(self) -> Floats:
        """(A,) the policy where nothing is known and no state is like that: the average over all other states."""
        decides = self.decides if self.decides.any() else np.ones(len(self.policy_logits), dtype=bool)
        mean: Floats = self.policy[decides].mean(axis=0)
        return mean

    def predict(
        self,
        observation: Any,
        action_mask: Any = None,
        rng: np.random.Generator | None = None,
        on_unknown: OnUnknown = "warn",
    ) -> Any:
        """The action for one observation, or the actions for a batch of them, as the environment calls them."""
        assert self.encoding is not None
        states, actions = self.encoding.states, self.encoding.actions

        def action_of(one: Any, given: Any) -> Any:
            mask = None if given is None else np.array(checked_action_mask(given, actions.n))
            state = states.find(one)
            if on_unknown != "best" and not self.is_known(state):
                say_unknown(one, on_unknown)
            return actions.decode(self.action(state, mask, rng))

        if not states.is_batch(observation):
            return action_of(observation, action_mask)
        single = states.unbatch(observation)
        return actions.batch(list(map(action_of, single, masks_of(action_mask, len(single)))))

    def is_known(self, state: int) -> bool:
        """Whether the state with this id was ever observed, or is foretold by its parts."""
        return state < len(self.policy_logits) and (self._seen is None or bool(self._seen[state]))

    @cached_property
    def _seen(self) -> Bools | None:
        """(S,) states that were left or reached at least once, or would be by what their parts foretell."""
        return None if self.planned_from is None else self.planned_from[0].reached_mask()

    @cached_property
    def q_quantiles(self) -> Floats | None:
        """(S, A, levels) quantiles of Q*(s, a): the network's where nothing was seen, the data's as visits grow.

        None where the weights have none. Actions that do not exist have −∞.
        """
        if self.network_quantiles is None or self.observed is None or not len(self.observed.pair):
            return self.network_quantiles
        q = q_quantiles(self.posterior, self.discount, np.random.default_rng(0))
        ends, exists = self.observed.terminal_mask()[:, None, None], np.isfinite(self.network_quantiles)
        return np.where(exists, np.where(ends, 0.0, q.clip(*self.attainable)), -np.inf)

    @property
    def attainable(self) -> tuple[float, float]:
        """The least and the most that any state can be worth, by the rewards that were told or seen."""
        assert self.planned_from is not None
        assert self.observed is not None
        return self.planned_from[1].attainable(float(self.observed.reward_scale[0]))

    @cached_property
    def posterior(self) -> ModelPosterior:
        """The posterior over models: what was observed, and the network's quantiles where nothing was."""
        assert self.observed is not None
        if self.network_quantiles is None:
            return ModelPosterior.of(self.observed, *ignorant_prior(self.observed, self.discount), self.rewards)
        return ModelPosterior.of(self.observed, self.network_quantiles, self.quantile_levels, self.rewards)

    @property
    def discount(self) -> float:
        """γ."""
        assert self.planned_from is not None
        return float(self.planned_from[1].discount[0])

    def q_at(self, level: float) -> Floats:
        """(S, A) the quantile of Q*(s, a) at a level between the outermost ones, interpolated."""
        levels = self.quantile_levels
        check_level("level", level, levels)
        quantiles = self.q_quantiles
        assert quantiles is not None
        above = int(np.searchsorted(levels, level))
        below = max(above - 1, 0)
        share = (level - levels[below]) / (levels[above] - levels[below]) if above > below else 0.0
        lower, upper = quantiles[..., below], quantiles[..., above]
        with np.errstate(invalid="ignore"):  # −∞ − −∞ of actions that do not exist
            return np.where(np.isfinite(lower), lower + share * (upper - lower), lower)

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """(S, A), (S, A) between which Q*(s, a) lies with this probability."""
        low = round((1 - level) / 2, 12)
        outermost = self.quantile_levels[-1] - self.quantile_levels[0] if self.quantile_levels else 0.0
        if self.quantile_levels and not 0 <= level <= round(outermost, 12):
            limit = f"it must lie in 0 … {outermost:g}, as far as the quantiles of these weights go"
            raise MdpfnError("level", level, limit, "ask for a smaller one")
        return self.q_at(low), self.q_at(1 - low)

    @cached_property
    def exploration(self) -> Floats:
        """(S, A) a policy that explores, to gather more data where `act` and `observe` cannot be used."""
        assert self.planned_from is not None
        return held_policy(*self.planned_from)

    def to_frame(self) -> Any:
        """A pandas frame with a row per state and action: policy, visits, quantiles of Q*, and their support."""
        assert self.observed is not None
        n_visits, decides = self.observed.visits_table(), ~self.observed.terminal_mask()
        exists = decides[:, None] & np.isfinite(self.policy_logits)
        state, action = np.nonzero(exists)
        visits = n_visits[state, action]
        columns: dict[str, Any] = {
            "state": [self.states[i] for i in state],
            "action": [self.actions[j] for j in action],
            "recommended": self.greedy[state] == action,
            "probability": self.policy[state, action],
            "n_visits": visits,
            "support": [support_of(n) for n in visits],
        }
        quantiles = self.q_quantiles
        for i, level in enumerate(self.quantile_levels if quantiles is not None else ()):
            assert quantiles is not None
            columns[f"q_{level:g}"] = quantiles[state, action, i]
        return pandas_frame(columns)

    @cached_property
    def states(self) -> list[Any]:
        """The states, as the environment or the data calls them."""
        return _names(self.encoding.states if self.encoding else None, len(self.policy_logits))

    @cached_property
    def actions(self) -> list[Any]:
        """The actions, as the environment or the data calls them."""
        return _names(self.encoding.actions if self.encoding else None, self.policy_logits.shape[1])


def say_unknown(observation: Any, how: OnUnknown) -> None:
    """Warn of a state that was never observed, or refuse it."""
    limit, remedy = "nothing is known of this state", 'observe it first, or say on_unknown="best" to go by the prior'
    error = MdpfnError("observation", shown(observation), limit, remedy)
    if how == "raise":
        raise error
    warnings.warn(str(error), UnknownStateWarning, stacklevel=5)


def pandas_frame(columns: Mapping[str, Sequence[Any]]) -> Any:
    """A pandas frame with these columns."""
    check_installed("pandas", "a frame", "frames")
    import pandas

    return pandas.DataFrame(dict(columns))


def support_of(n_visits: float) -> Support:
    """Whether data, the prior or both support the estimate of a pair with this many visits."""
    if n_visits >= THIN_VISITS:
        return "data"
    return "data and prior" if n_visits else "prior"


def check_level(field: str, level: float, levels: tuple[float, ...]) -> None:
    """Refuse a level outside the quantile levels of the weights."""
    if not levels:
        raise MdpfnError(field, level, "these weights have no quantiles of Q*", "use others, or none")
    if not levels[0] <= level <= levels[-1]:
        limit = f"it must lie in {levels[0]:g} … {levels[-1]:g}"
        raise MdpfnError(field, level, limit, "take a quantile in between: low ones avoid risk, high ones seek it")


def _names(codec: Codec | None, n: int) -> list[Any]:
    return list(range(n)) if codec is None else [codec.decode(number) for number in range(min(n, codec.n))]
