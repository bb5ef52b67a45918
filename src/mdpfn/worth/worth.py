"""What policies are worth where episodes start, and by how much one is better than another, given the data.

A policy is evaluated in models that may be the true one (`planners.posterior`), the same for every policy, so that
differences are surer than values. One that was chosen on the same data looks better than it is, by about as much as
the best policies of drawn models look better than the best of the expected one: that is taken off, and never more than
the better one of two looks too good by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are used

from mdpfn.arrays import Floats, normalized
from mdpfn.model.policy_values import occupancy
from mdpfn.plan import Plan
from mdpfn.planners.posterior import ModelPosterior, Models
from mdpfn.planners.q_posterior import CERTAIN, tail_steps
from mdpfn.worth.importance import ImportanceCheck, read_episodes
from mdpfn.worth.policy_table import PolicyLike, as_table
from mdpfn.worth.values import Improvement, PolicyValue, Regret, Risk

DRAWS = 128
REGRET_DRAWS = 48
CURSE_DRAWS = 24  # models whose best policies tell how much better a chosen policy looks than it is
MOST_RISKS = 5  # pairs that are named
MEDIAN = np.array([0.5])
LUCK = 0.5  # standard deviations that are taken off at most; of two equals, the one that looks better has 0.56
ROUNDING = 1e-9  # of a value: by less, no policy is better than another
SPREAD = 1.08  # that values of the logged policy have beyond that of draws


class Worth:
    """The evaluator of policies of one problem, in models that its data and the prior allow."""

    def __init__(self, plan: Plan, starts: Mapping[int, int] | None) -> None:
        assert plan.observed is not None
        self.plan, self.discount = plan, plan.discount
        self._visits = plan.observed.visits_table()
        left = self._visits.sum(axis=1)
        counts = np.zeros(len(left))
        for state, number in (starts or dict(enumerate(left))).items():
            counts[state] = number
        self.starts = counts  # (S,) starts of episodes, or, where these are not known, visits of states

    def value(self, policy: PolicyLike, episodes: Any = None) -> PolicyValue:
        """What a policy is worth, and, by episodes of the log, what it would have earned there."""
        if isinstance(policy, str) and policy == "logged":
            table, found = self.logged_policy, self.logged
        else:
            table = as_table(policy, self.plan)
            found = self.of_table(table, chosen=isinstance(policy, Plan))
        return found if episodes is None else replace(found, check=self._check(table, episodes))

    def _check(self, policy: Floats, episodes: Any) -> ImportanceCheck:
        assert self.plan.encoding is not None
        read = read_episodes(episodes, self.plan.encoding, self.logged_policy)
        q = self._expected.policy_q(self._expected.policy_value(policy, self.discount), self.discount)[0]
        return ImportanceCheck.of(read, policy, self.logged_policy, q, self.discount)

    def of_table(self, policy: Floats, *, chosen: bool = False) -> PolicyValue:
        """The value of π (S, A), which may have been chosen by the same data."""
        at_start, by_state = self._draws(policy), self._expected.policy_value(policy, self.discount)[0]
        contributions, attainable = self._contributions(policy), self.plan.attainable
        return PolicyValue(
            float(np.clip(at_start.mean() - self._excess(at_start, chosen=chosen), *attainable)),
            self._calibrated(at_start, contributions, chosen=chosen).clip(*attainable),
            by_state,
            self._effective_sample_size(policy),
            self._risks(contributions),
        )

    @cached_property
    def logged(self) -> PolicyValue:
        """What the policy is worth that the log was made by, as far as visits tell it."""
        draws = self._logged_draws
        return replace(self.of_table(self.logged_policy), mean=float(draws.mean()), draws=self._spread_out(draws))

    def improvement(self, policy: Floats, *, chosen: bool = True) -> Improvement:
        """By how much π (S, A), chosen by the same data unless said otherwise, is better than the logged policy."""
        contributions = self._contributions(policy, self.logged_policy)
        new = self.of_table(policy, chosen=chosen)
        gain = self.gain(policy, chosen=chosen)
        mean = new.mean - self.logged.mean if gain.any() else 0.0
        return Improvement(mean, gain, new, self.logged, self._risks(contributions))

    def gain(self, policy: Floats, *, chosen: bool = True) -> Floats:
        """(draws,) V(π) − V(logged); exactly 0 where both are the same."""
        if self._is_logged(policy):
            return np.zeros(DRAWS)
        draws = self._draws(policy) - self._logged_draws
        draws[np.abs(draws) < ROUNDING * np.abs(self._logged_draws)] = 0.0
        return self._calibrated(draws, self._contributions(policy, self.logged_policy), chosen=chosen)

    def _is_logged(self, policy: Floats) -> bool:
        return bool((policy == self.logged_policy)[self._visits.sum(axis=1) > 0].all())

    def regret(self, policy: Floats) -> Regret:
        """How much better than π (S, A) the best policy is, in models that may be the true one."""
        models = self.plan.posterior.drawn(np.random.default_rng(4), REGRET_DRAWS)
        best = models.optimal_q(self.discount).max(axis=2, initial=-np.inf)
        missed = np.where(self.starts > 0, best - models.policy_value(policy, self.discount), 0.0)
        share = self.starts / max(self.starts.sum(), 1.0)
        draws = missed @ share
        draws[draws < ROUNDING * np.abs(np.where(self.starts > 0, best, 0.0) @ share)] = 0.0
        return Regret(float(draws.mean()), draws)

    @cached_property
    def logged_policy(self) -> Floats:
        """(S, A) π(a | s) = N(s, a) / N(s); any action that exists in states that were never left."""
        return normalized(self._logged_weights)

    @property
    def _logged_weights(self) -> Floats:
        weight = self._visits.copy()
        never = weight.sum(axis=1) == 0
        weight[never] = np.isfinite(self.plan.policy_logits[never])
        return weight

    @cached_property
    def _posterior(self) -> ModelPosterior:
        """What is rare and was not seen yet is worth to a policy what else follows: it is left out."""
        return replace(self.plan.posterior, unseen=np.zeros_like(self.plan.posterior.unseen))

    @cached_property
    def _models(self) -> Models:
        return self._posterior.drawn(np.random.default_rng(0), DRAWS)

    @cached_property
    def _expected(self) -> Models:
        """The expected model, at the median of the prior."""
        return self._posterior.expected(MEDIAN)

    @cached_property
    def _start_draws(self) -> Floats:
        """(draws, S) distributions of starts that may be the true one."""
        weight = np.random.default_rng(1).standard_gamma(self.starts, size=(DRAWS, len(self.starts)))
        share: Floats = weight / np.maximum(weight.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        return share

    def _draws(self, policy: Floats) -> Floats:
        """(draws,) values at the start; π (S, A) or one for every draw."""
        value: Floats = (self._models.policy_value(policy, self.discount) * self._start_draws).sum(axis=1)
        return value

    @cached_property
    def _logged_draws(self) -> Floats:
        """(draws,) values of the logged policy at the start, which visits tell not exactly either."""
        weight = np.random.default_rng(2).standard_gamma(self._logged_weights, size=(DRAWS, *self._visits.shape))
        weight = np.maximum(weight, np.finfo(np.float64).tiny)
        return self._draws(normalized(weight))

    @cached_property
    def _curse(self) -> float:
        """How much better a policy looks, at the start, that was chosen as the best by the same data."""
        start = self.starts / max(self.starts.sum(), 1.0)
        drawn = self._posterior.drawn(np.random.default_rng(3), CURSE_DRAWS, median_prior=True)
        best = drawn.optimal_q(self.discount).max(axis=2, initial=-np.inf)
        expected = self._expected.optimal_q(self.discount)[0].max(axis=1)
        counts = start > 0
        return max(float((best.mean(axis=0) - expected)[counts] @ start[counts]), 0.0)

    def _calibrated(self, draws: Floats, contributions: Floats, *, chosen: bool) -> Floats:
        """Draws with tails as heavy as `tail_steps` says, less the excess of what was chosen by the same data."""
        mean, spread, excess = draws.mean(), draws.std(), self._excess(draws, chosen=chosen)
        if spread > 0:
            level = scipy.special.ndtr((draws - mean) / spread)
            n = self._visits_behind(contributions, chosen=chosen)
            draws = mean + spread * tail_steps(n, np.clip(level, 1e-3, 1 - 1e-3))
        return draws - excess

    def _visits_behind(self, contributions: Floats, *, chosen: bool) -> float:
        """Visits of the pairs that a variance (rows,) comes from: their harmonic mean, weighted by it.

        What was chosen by the same data is in doubt by all pairs that it was chosen among, each with the same weight.
        """
        weight = np.where(self._posterior.unvisited, 0.0, 1.0 if chosen else contributions)
        by_visits = float((weight / self._models.table.n_visits).sum())
        return float(weight.sum()) / by_visits if by_visits > 0 else CERTAIN

    def _excess(self, draws: Floats, *, chosen: bool) -> float:
        """What is taken off: nothing from what is known exactly."""
        return min(self._curse, LUCK * float(draws.std())) if chosen else 0.0

    def _spread_out(self, draws: Floats) -> Floats:
        mean = draws.mean()
        return np.asarray(mean + SPREAD * (draws - mean))

    def _effective_sample_size(self, policy: Floats) -> float:
        """1 / Σ d(s, a)² / N(s, a) with d how often π takes a pair; 0 where it takes what the log never took."""
        taken = self._occupancy(policy)
        share = taken / max(taken.sum(), np.finfo(np.float64).tiny)
        if (share[self._visits == 0] > 0).any():
            return 0.0
        tried = self._visits > 0
        return float(1 / max((share[tried] ** 2 / self._visits[tried]).sum(), np.finfo(np.float64).tiny))

    def _occupancy(self, policy: Floats) -> Floats:
        """(S, A) discounted visits of pairs from the start on, in the expected model."""
        model, start = self._expected, self.starts / max(self.starts.sum(), 1.0)
        return occupancy(model.table, policy, (model.share * (1 - model.ends))[0], start, self.discount)

    def _contributions(self, policy: Floats, other: Floats | None = None) -> Floats:
        """(rows,) the variance of a value, or of a difference of two, that each pair contributes (delta method)."""
        z, models = self._models.table, self._models
        weights = []
        for each in (policy,) if other is None else (policy, other):
            backup = models.backup(self._expected.policy_value(each, self.discount), self.discount)
            weights.append(self._occupancy(each).reshape(-1)[z.pair] * (backup - backup.mean(axis=0)))
        moved = weights[0] if other is None else weights[0] - weights[1]
        variance: Floats = moved.var(axis=0)
        return variance

    def _risks(self, variance: Floats) -> tuple[Risk, ...]:
        z, total = self._models.table, variance.sum()
        if not total > 0:
            return ()
        most = np.argsort(-variance, kind="stable")[:MOST_RISKS]
        states, actions = self.plan.states, self.plan.actions
        return tuple(
            Risk(
                states[z.state[i]],
                actions[z.action[i]],
                float(variance[i] / total),
                float(self._visits[z.state[i], z.action[i]]),
            )
            for i in most
            if variance[i] > 0 and z.state[i] < len(states)
        )
