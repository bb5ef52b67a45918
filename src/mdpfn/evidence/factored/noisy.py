"""Rules for random outcomes: which factors the distribution of an outcome depends on.

Rules are compared by leave-one-out likelihood: how well each visited pair is predicted by the others that share its
context, with the distribution of the action over all states as prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdpfn.arrays import Floats, Ints, sums_by
from mdpfn.evidence.factored.config import FactoredConfig
from mdpfn.evidence.factored.factors import keys_of, looked_up
from mdpfn.evidence.factored.rules import Contexts


@dataclass(frozen=True, eq=False)
class Outcomes:
    """How often each category of an outcome was observed in each pair, as sparse entries."""

    row: Ints
    category: Ints
    count: Floats
    values: Ints  # (categories, parts) what they stand for: one column, or several that belong together

    @classmethod
    def of(cls, row: Ints, values: Ints, count: Floats) -> Outcomes:
        """The outcomes of observed values (n, parts), in which rows may repeat."""
        distinct, category = np.unique(values, axis=0, return_inverse=True)
        key, where = np.unique(row * len(distinct) + category.reshape(-1), return_inverse=True)
        return cls(key // len(distinct), key % len(distinct), sums_by(where, count), distinct)


@dataclass(frozen=True, eq=False)
class NoisyRule:
    """Counts of outcomes in every context of some factors."""

    kind: int
    subset: tuple[int, ...]
    keys: Ints  # (contexts,) rising
    count: Floats  # (contexts, categories)
    score: float  # log-likelihood, less the price of the factors
    trust: float

    def place(self, codes: Ints, sizes: Ints) -> Ints:
        """(n,) the contexts of states; −1 where one was never seen."""
        place, seen = looked_up(self.keys, keys_of(codes, sizes, self.subset))
        return np.where(seen, place, -1)


def find_noisy_rule(kinds: Sequence[Outcomes], contexts: Contexts, config: FactoredConfig) -> NoisyRule | None:
    """The most likely rule of an outcome, given as change and as new value (`kinds`); None if it is not trusted."""
    best: NoisyRule | None = None
    for kind, outcomes in enumerate(kinds):
        visits = sums_by(outcomes.row, outcomes.count, len(contexts.codes))
        everywhere = sums_by(outcomes.category, outcomes.count)
        for size in range(config.largest_noisy_subset + 1):
            for subset in contexts.subsets(size, config):
                keys, group, n_here = contexts.of(subset)
                if size and n_here.max() == 1:
                    continue
                n = len(everywhere)
                count = sums_by(group[outcomes.row] * n + outcomes.category, outcomes.count, len(keys) * n)
                rule = NoisyRule(kind, subset, keys, count.reshape(-1, n), 0.0, 0.0)
                judged = _judged(rule, outcomes, group, visits, everywhere, config)
                if best is None or judged.score > best.score:
                    best = judged
    return best if best is not None and best.trust >= config.least_trust else None


def _judged(
    rule: NoisyRule, outcomes: Outcomes, group: Ints, visits: Floats, everywhere: Floats, config: FactoredConfig
) -> NoisyRule:
    """The rule with its score and its trust, which is 0 where pairs differ from their context."""
    row, own, n = outcomes.row, outcomes.count, visits[outcomes.row]
    base = (everywhere[outcomes.category] - own + 0.5) / (everywhere.sum() - n + 0.5 * len(everywhere))
    others = np.maximum(rule.count[group[row], outcomes.category] - own, 0.0)
    rest = np.maximum(rule.count.sum(axis=1)[group[row]] - n, 0.0)
    foretold = (others + config.shrinkage * base) / (rest + config.shrinkage)
    score = float((own * np.log(foretold)).sum()) - config.factor_price * len(rule.subset)
    told, again = rest > 1e-9, n >= 2
    by_itself = (np.maximum(own - 1, 0.0) + config.own_visits * foretold) / (np.maximum(n - 1, 0.0) + config.own_visits)
    differs = float((own * (np.log(by_itself) - np.log(foretold)))[told & again].sum())
    hits = float((own / n * (others > 1e-9))[told].sum())
    n_told = float((own / n)[told].sum())
    trust = (hits + 1) / (n_told + 2) if differs < config.evidence else 0.0
    return NoisyRule(rule.kind, rule.subset, rule.keys, rule.count, score, trust)
