"""A distribution over a Box of actions: a Gaussian, squashed by tanh into its bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpfn.arrays import Floats

EDGE = 0.96  # tanh of where the bounds of the box lie for the Gaussian: they themselves are infinitely far away


@dataclass(frozen=True, eq=False)
class SquashedGaussian:
    """A Gaussian that tanh squashes into a box, independently in every dimension.

    Actions are low + (high − low) (tanh z + 1) / 2 with z ~ N(mean, std²).
    """

    low: Floats  # (m,)
    high: Floats
    mean: Floats
    std: Floats

    @classmethod
    def of_policy(cls, codes: Floats, policy: Floats, low: Floats, high: Floats) -> SquashedGaussian:
        """The one with the mean and the spread of a policy (n,) over points with codes (n, m) in [−1, 1].

        It is at least as wide as half the way to the next point, since the policy does not tell actions between them.
        """
        z = np.arctanh(EDGE * codes)
        mean = policy @ z
        between = [np.diff(np.unique(column)) for column in z.T]
        least = np.array([gaps.min() / 4 if len(gaps) else 1e-6 for gaps in between])
        return cls(low, high, mean, np.maximum(np.sqrt(policy @ (z - mean) ** 2), least))

    @property
    def median(self) -> Floats:
        """(m,) the action in the middle."""
        return self._squashed(self.mean)

    def sample(self, rng: np.random.Generator, n: int) -> Floats:
        """(n, m) actions."""
        return self._squashed(rng.normal(self.mean, self.std, (n, len(self.mean))))

    def log_density(self, actions: Floats) -> Floats:
        """(n,) the log-density of actions (n, m) strictly within the bounds."""
        half = (self.high - self.low) / 2
        squashed = (actions - self.low) / half - 1
        z = np.arctanh(squashed)
        gaussian = -0.5 * ((z - self.mean) / self.std) ** 2 - np.log(self.std) - 0.5 * np.log(2 * np.pi)
        return np.asarray((gaussian - np.log(half * (1 - squashed**2))).sum(axis=1))

    def _squashed(self, z: Floats) -> Floats:
        return np.asarray(self.low + (self.high - self.low) * (np.tanh(z) + 1) / 2)
