"""Rules for mean rewards: a mean for every context of a few factors, or a sum over all factors."""

from dataclasses import dataclass

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints, sums_by
from mdpfn.evidence.factored.config import FactoredConfig
from mdpfn.evidence.factored.factors import keys_of, looked_up
from mdpfn.evidence.factored.rules import Contexts

FAR, UNTOLD, LARGEST = 9.0, 2.0, 4.0  # squared errors: too many; in nats: the loss where nothing is told; the largest
EXACT = 1e-6  # of the largest reward: closer numbers are equal
MOST_COLUMNS = 200


@dataclass(frozen=True, eq=False)
class MeanRule:
    """Means by context, or (subset None) weights of every value of every factor that add up."""

    subset: tuple[int, ...] | None
    keys: Ints
    mean: Floats
    trust: float
    space: Floats  # (columns, columns) what sums can be told of

    def predict(self, codes: Ints, sizes: Ints) -> tuple[Bools, Floats]:
        """(n,) whether the mean can be predicted, and the mean."""
        if self.subset is None:
            x = one_hot(codes, sizes)
            return np.abs(x - x @ self.space).max(axis=1) < EXACT, x @ self.mean
        place, told = looked_up(self.keys, keys_of(codes, sizes, self.subset))
        return told, self.mean[place]


def one_hot(codes: Ints, sizes: Ints) -> Floats:
    """(n, Σ sizes) which value every factor has."""
    x = np.zeros((len(codes), int(sizes.sum())))
    for j, start in enumerate(np.cumsum(sizes) - sizes):
        x[np.arange(len(codes)), start + codes[:, j]] = 1.0
    return x


def find_mean_rule(mean: Floats, visits: Floats, noise: Floats, contexts: Contexts, config: FactoredConfig) -> MeanRule:
    """The rule that predicts the means (rows,) best, given the variance `noise` of single rewards."""
    exact = (EXACT * max(float(np.abs(mean).max()), 1e-12)) ** 2
    best, found = -np.inf, MeanRule((), np.zeros(1, dtype=np.int64), mean[:1], 0.0, np.zeros((0, 0)))
    for size in range(config.largest_noisy_subset + 1):
        for subset in contexts.subsets(size, config):
            keys, group, _ = contexts.of(subset)
            weight = sums_by(group, visits)
            by_context = sums_by(group, visits * mean) / weight
            rest = weight[group] - visits
            told = rest > 1e-9
            others = (by_context[group] * weight[group] - visits * mean) / np.where(told, rest, 1.0)
            far = (mean - others) ** 2 / (exact + noise * (1 / visits + 1 / np.where(told, rest, 1.0)))
            score, trust = _judged(far, told, config.factor_price * size)
            if score > best:
                best, found = score, MeanRule(subset, keys, by_context, trust, found.space)
    n_columns = int(contexts.sizes.sum())
    if n_columns <= MOST_COLUMNS and len(mean) > n_columns - len(contexts.sizes) + 1:
        x = one_hot(contexts.codes, contexts.sizes)
        inverse = np.linalg.pinv(x, rcond=1e-9)
        weights = inverse @ mean
        left = 1 - (x * inverse.T).sum(axis=1)  # 1 − leverage
        told = left > EXACT
        error = (mean - x @ weights) / np.where(told, left, 1.0)
        far = error**2 / (exact + noise / visits / np.where(told, left, 1.0))
        score, trust = _judged(far, told, config.factor_price * config.largest_subset)
        if score > best:
            found = MeanRule(None, found.keys, weights, trust, inverse @ x)
    return found


def _judged(far: Floats, told: Bools, price: float) -> tuple[float, float]:
    """Score and trust of a rule, from squared errors in units of their variance."""
    score = -float(np.where(told, np.minimum(far / 2, LARGEST), UNTOLD).sum()) - price
    return score, (float((told & (far <= FAR)).sum()) + 1) / (float(told.sum()) + 2)
