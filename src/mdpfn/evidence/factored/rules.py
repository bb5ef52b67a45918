"""Rules for deterministic outcomes of an action: which factors of the state they depend on.

An *outcome* is the next value of one factor, the end of the episode, or the reward. A *hypothesis* says that it is a
function of a subset of the factors; for a factor, of its change or of its new value (the *kind*). Pairs that agree on
the subset share a *context*. A hypothesis is consistent if all pairs of every context had the same outcome. A rule
keeps all consistent hypotheses of the smallest size, and predicts only where all of them agree.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints
from mdpfn.evidence.factored.config import FactoredConfig
from mdpfn.evidence.factored.factors import keys_of, looked_up


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A subset of the factors, and the outcome observed in each of their contexts."""

    subset: tuple[int, ...]
    kind: int  # of outcomes, by their place
    keys: Ints  # (contexts,) rising
    category: Ints  # (contexts,) the outcome
    trust: Floats  # (categories,) how often such an outcome was right where it was predicted


@dataclass(frozen=True, eq=False)
class Rule:
    """The smallest hypotheses that are consistent with everything seen of one outcome of one action."""

    hypotheses: tuple[Hypothesis, ...]
    partial: bool = False  # whether it tells only in some contexts, as no hypothesis is consistent in all

    def predict(
        self, codes: Ints, sizes: Ints, values: Sequence[Ints], shift: Ints | int
    ) -> tuple[Bools, Ints, Floats]:
        """(n,) whether all hypotheses agree on what comes, what that is, and how far to trust it.

        `values` are what categories stand for, by kind; to those of the first kind `shift` is added.
        """
        told, trust = np.ones(len(codes), dtype=bool), np.zeros(len(codes))
        agreed = np.zeros(len(codes), dtype=np.int64)
        for number, one in enumerate(self.hypotheses):
            if not len(one.keys):
                return np.zeros(len(codes), dtype=bool), agreed, trust
            place, seen = looked_up(one.keys, keys_of(codes, sizes, one.subset))
            value = values[one.kind][one.category[place]] + (shift if one.kind == 0 else 0)
            told &= seen & ((value == agreed) if number else True)
            agreed = value
            trust = np.maximum(trust, one.trust[one.category[place]])
        return told, agreed, trust


@dataclass
class Contexts:
    """The contexts of the pairs of one action by subset of the factors, computed on demand."""

    codes: Ints  # (rows, d)
    sizes: Ints
    _found: dict[tuple[int, ...], tuple[Ints, Ints, Ints]] = field(default_factory=dict)

    def of(self, subset: tuple[int, ...]) -> tuple[Ints, Ints, Ints]:
        """Distinct keys in rising order, (rows,) the place of each row among them, and how many rows each has."""
        if subset not in self._found:
            keys = keys_of(self.codes, self.sizes, subset)
            self._found[subset] = np.unique(keys, return_inverse=True, return_counts=True)
        return self._found[subset]

    def subsets(self, size: int, config: FactoredConfig) -> list[tuple[int, ...]]:
        """The subsets of a size that are considered; never all factors, which would be the table itself."""
        d = len(self.sizes)
        some = [] if size >= d else list(combinations(range(d), size))
        return some if size < 2 or len(some) <= config.most_subsets else []


def find_rule(outcomes: Sequence[Ints], contexts: Contexts, config: FactoredConfig) -> Rule | None:
    """The rule of one outcome, given as categories (rows,) for each kind; None where no small subset explains it."""
    n_rows = len(contexts.codes)
    surprising = np.zeros(n_rows, dtype=bool)
    for size in range(config.largest_subset + 1):
        consistent: list[tuple[tuple[int, ...], int, Ints, Ints, Bools]] = []
        some = contexts.subsets(size, config)
        for subset in some:
            keys, group, n_here = contexts.of(subset)
            if size and len(keys) == n_rows:
                continue  # nothing was seen twice
            for kind, category in enumerate(outcomes):
                last = np.zeros(len(keys), dtype=np.int64)
                last[group] = category
                differs = np.flatnonzero(category != last[group])
                if not len(differs):
                    consistent.append((subset, kind, keys, last, n_here[group] > 1))
                else:
                    _note_surprise(surprising, category, group, differs)
        if consistent:
            n_tested = len(some) if size else 0
            return Rule(tuple(_hypothesis(*one, outcomes[one[1]], surprising, n_tested, config) for one in consistent))
    return partial_rule(outcomes, contexts, config)


def partial_rule(outcomes: Sequence[Ints], contexts: Contexts, config: FactoredConfig) -> Rule | None:
    """A rule for some contexts only: of the subset that explains most, the contexts in which all pairs agree."""
    best, found = 0.0, None
    size = min(config.largest_subset, len(contexts.sizes) - 1)
    while size > 0 and not contexts.subsets(size, config):
        size -= 1
    for subset in contexts.subsets(size, config) if size else []:
        keys, group, _ = contexts.of(subset)
        for kind, category in enumerate(outcomes):
            n = int(category.max()) + 1
            count = np.bincount(group * n + category, minlength=len(keys) * n).reshape(-1, n)
            n_kinds = (count > 0).sum(axis=1)
            alone = count[group, category] == 1
            hit = (n_kinds[group] == 1) & ~alone  # all others of the context did the same
            miss = (n_kinds[group] == 2) & alone  # all others did something else
            usual = np.where(count == count.max(axis=1, keepdims=True), count, 0).argmax(axis=1)
            # the others of a pair that stands alone agree on the one category that is not its own
            foretold = np.where(count[group, usual[group]] > 1, usual[group], category)
            hits = np.bincount(category[hit], minlength=n)
            misses = np.bincount(foretold[miss], minlength=n)
            score = float(hits.sum() - 10 * misses.sum())
            if score > best:
                best = score
                outcome = np.where(n_kinds == 1, count.argmax(axis=1), -1)
                pure = outcome >= 0
                trust = _trust(hits, misses, category, len(contexts.subsets(size, config)), config)
                found = Hypothesis(subset, kind, keys[pure], outcome[pure], trust)
    return None if found is None else Rule((found,), partial=True)


def _hypothesis(
    subset: tuple[int, ...],
    kind: int,
    keys: Ints,
    last: Ints,
    told: Bools,
    category: Ints,
    surprising: Bools,
    n_tested: int,
    config: FactoredConfig,
) -> Hypothesis:
    n = int(category.max()) + 1
    n_told = np.bincount(category[told], minlength=n)
    n_surprises = np.minimum(np.bincount(category[surprising], minlength=n), n_told)
    return Hypothesis(subset, kind, keys, last, _trust(n_told - n_surprises, n_surprises, category, n_tested, config))


def _trust(hits: Ints, misses: Ints, category: Ints, n_tested: int, config: FactoredConfig) -> Floats:
    """(categories,) how often a predicted outcome is right, by Laplace's rule of succession.

    0 for outcomes that may be right by chance alone: among many subsets, one always fits a little.
    """
    trust: Floats = (hits + 1) / (hits + misses + 2)
    if n_tested:
        share = np.bincount(category, minlength=len(hits)) / len(category)
        by_chance = hits * np.log(np.maximum(share, 1e-12)) + np.log(n_tested)
        trust = np.where((share >= config.least_trust) | (by_chance < -config.evidence), trust, 0.0)
    return trust


def _note_surprise(surprising: Bools, category: Ints, group: Ints, differs: Ints) -> None:
    """Mark the pairs that alone make a hypothesis inconsistent: without them it would have predicted wrongly."""
    mixed = group[differs[0]]
    if (group[differs] != mixed).any():
        return
    here = np.flatnonzero(group == mixed)
    kinds, which, n = np.unique(category[here], return_inverse=True, return_counts=True)
    if len(kinds) == 2:
        surprising[here[(n == 1)[which]]] = True
