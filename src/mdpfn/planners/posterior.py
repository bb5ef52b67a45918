"""How sure the data makes one of Q*: solutions of models that may be the true one.

Every draw has rows of P ~ Dirichlet(N) and means of rewards around r̂ with the standard error that rewards had. Q̂ of the
empirical model is too high, because a maximum over estimates is; the draws are too high above it by about as much, so
what they have in excess is taken off. Q* then lies around that by Student's t: tails are heavier than normal, the fewer
visits there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy  # its parts are loaded when they are used

from mdpfn.arrays import Floats, sums_by
from mdpfn.evidence import PairTable
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.model.posterior import reward_error
from mdpfn.planners.classical import CERTAINTY_EQUIVALENT, estimate
from mdpfn.planners.problem_info import ProblemInfo

DRAWS = 48
SMALLEST_SHARE = 1e-12  # of a transition that was observed, in a drawn model


@dataclass(frozen=True, eq=False)
class QPosterior:
    """Where Q* lies by the data alone."""

    centre: Floats  # (S, A)
    spread: Floats  # (S, A)
    n_visits: float  # mean visits of the pairs of states that were left at least once

    @classmethod
    def of(cls, table: PairTable, info: ProblemInfo, rng: np.random.Generator, draws: int = DRAWS) -> QPosterior:
        """The posterior of the only MDP of a table."""
        tables = PairTable.concatenate([table, *(_drawn(table, rng) for _ in range(draws))])
        model = EmpiricalModel.of(tables)
        found = estimate(model, ProblemInfo.concatenate([info] * (draws + 1)), (CERTAINTY_EQUIVALENT,))
        shape = (draws + 1, int(table.n_states[0]), int(table.n_actions[0]))
        q = found.q_table(CERTAINTY_EQUIVALENT).reshape(shape) * table.reward_scale[0]
        n_known = max(len(np.unique(table.state)) * shape[2], 1)
        centre: Floats = 2 * q[0] - q[1:].mean(axis=0)
        return cls(centre, q[1:].std(axis=0), float(table.n_visits.sum()) / n_known)

    def quantiles(self, levels: tuple[float, ...]) -> Floats:
        """(S, A, levels) of Q*."""
        degrees = 1 + 1.2 * self.n_visits**0.4
        unseen = np.sqrt(1 + 4 / max(self.n_visits, 1e-9))  # few visits miss what is rare
        steps: Floats = unseen * scipy.special.stdtrit(degrees, np.array(levels))
        return self.centre[..., None] + self.spread[..., None] * steps


def _drawn(z: PairTable, rng: np.random.Generator) -> PairTable:
    """The table of a model that may be the true one."""
    weight = rng.standard_gamma(z.transition_count)
    share = np.maximum(weight / sums_by(z.transition_row, weight, len(z.pair))[z.transition_row], SMALLEST_SHARE)
    count = share * z.n_visits[z.transition_row]
    reward = z.mean_reward + reward_error(z) * rng.standard_normal(len(z.pair))
    return replace(
        z,
        transition_count=count,
        n_terminated=count * (z.n_terminated / z.transition_count),
        reward_sum=reward * z.n_visits,
    )
