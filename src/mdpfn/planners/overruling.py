"""The data overrules the network where it leaves no doubt.

A network that was trained on little data may stay with what the prior says, however much is observed: of a log with ten
thousand visits and a single way out it made a policy that goes in circles. Where its action was tried
often, and another is better in all models drawn from the posterior, that one takes its place.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mdpfn.arrays import Floats, Ints
from mdpfn.planners.policies import TIE, best_actions, greedy_actions, one_hot
from mdpfn.planners.posterior import ModelPosterior, Models

FIRST_DRAWS, MORE_DRAWS = 4, 12  # models; only what is better in all of the first is asked of the others
THIN_VISITS = 5  # fewer visits than this, and the prior says more about a pair than the data
LEAST_GAIN = 1e-6  # of the largest |Q*|: less is rounding


def overruled(logits: Floats, posterior: ModelPosterior, discount: float) -> Floats:
    """(S, A) the logits, with those of two actions exchanged where the second is surely better than the best."""
    rng, known = np.random.default_rng(0), _without_prior(posterior, discount)
    drawn = known.drawn(rng, FIRST_DRAWS).optimal_q(discount)
    least = LEAST_GAIN * float(np.abs(drawn[np.isfinite(drawn)]).max(initial=0.0))
    chosen, better = greedy_actions(logits), best_actions(np.where(np.isfinite(logits), drawn.mean(axis=0), -np.inf))

    def surely_better(drawn: Floats, states: Ints) -> Ints:
        gain = drawn[:, states, better[states]] - drawn[:, states, chosen[states]]
        return states[(gain > least).all(axis=0)]

    tried = posterior.table.visits_table()[np.arange(len(logits)), chosen] >= THIN_VISITS
    states = surely_better(drawn, np.flatnonzero(tried))
    if len(states):
        models = known.drawn(rng, MORE_DRAWS)
        states = surely_better(models.optimal_q(discount), states)
        states = _improving(models, chosen, better, states, discount)
    if not len(states):
        return logits
    exchanged = logits.copy()
    exchanged[states, chosen[states]] = logits[states, better[states]]
    exchanged[states, better[states]] = logits[states].max(axis=1) + 2 * TIE  # others may be as good as the chosen one
    return exchanged


def _improving(models: Models, chosen: Ints, better: Ints, states: Ints, discount: float) -> Ints:
    """Those of some states whose exchange, together, makes the policy worse in no model.

    An action that is best where all follow the best policy need not be any good where other states keep to theirs: two
    policies that both lead out may lead in circles where they meet.
    """
    n_actions = int(models.table.n_actions[0])
    before = models.policy_value(one_hot(chosen, n_actions), discount)
    least = LEAST_GAIN * float(np.abs(before).max())
    while len(states):
        mixed = chosen.copy()
        mixed[states] = better[states]
        after = models.policy_value(one_hot(mixed, n_actions), discount)
        loses = (after[:, states] < before[:, states] - least).any(axis=0)
        if not loses.any():
            break
        states = states[~loses]
    return states


def _without_prior(posterior: ModelPosterior, discount: float) -> ModelPosterior:
    """The posterior of somebody who never does what was not tried: the prior alone overrules nobody."""
    z = posterior.table
    worst = -2 * float(np.abs(z.mean_reward).max(initial=0.0)) / (1 - discount)
    prior = np.where(posterior.unvisited[:, None], worst, posterior.prior)
    return replace(posterior, prior=prior)
