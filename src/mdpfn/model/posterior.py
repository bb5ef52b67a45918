"""How sure the data makes one of the value of a policy: draws of models that may be the true one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mdpfn.arrays import Floats, sums_by
from mdpfn.evidence import PairTable
from mdpfn.model.empirical import EmpiricalModel


def value_draws(model: EmpiricalModel, policy: Floats, discount: float, rng: np.random.Generator, n: int) -> Floats:
    """(n, S) V of π (S, A) in draws from the posterior of the only MDP, given what was observed.

    Rows of P ~ Dirichlet(N), means of rewards ~ normal around r̂ with the standard error that rewards had. What was
    never visited is the same in all draws, so that they say nothing about it.
    """
    z = model.table
    draws = np.empty((n, int(model.n_states[0])))
    for i in range(n):
        weight = rng.standard_gamma(z.transition_count)
        total = sums_by(z.transition_row, weight, len(z.pair))
        probability = np.maximum(weight / total[z.transition_row], 1e-12)
        drawn = replace(z, transition_count=probability, n_visits=np.ones(len(z.pair)))
        reward = z.mean_reward + reward_error(z) * rng.standard_normal(len(z.pair))
        draws[i] = replace(model, table=drawn).policy_value(policy, reward, discount)
    return draws


def reward_error(z: PairTable) -> Floats:
    """(visited,) the standard error of r̂(s, a); with few visits, of what rewards of all pairs vary by counts too."""
    n, mean = z.n_visits, z.mean_reward
    deviation = np.maximum(z.reward_square_sum - n * mean**2, 0)
    pooled = deviation.sum() / max(float(np.maximum(n - 1, 0).sum()), 1.0)
    error: Floats = np.sqrt((deviation + pooled) / n / n)
    return error
