"""Observations that are numbers: as vectors, or in bins.

Vectors need nothing: MountainCar is solved in a handful of episodes. Bins make a table of states; coarse ones are
learned fast, fine ones distinguish more, and one bin leaves a dimension out.

Run it with `python examples/continuous.py`.
"""

from __future__ import annotations

import gymnasium as gym

from mdpfn import Agent, Discretize

BINS = [1, 1, 6, 3]  # the angle of the pole and how fast it falls; where the cart is does not matter


def as_vectors(episodes: int = 8) -> float:
    """The mean return of MountainCar's final policy, learned from positions and velocities as they are."""
    result = Agent.from_pretrained().solve(gym.make("MountainCar-v0"), episodes, seed=0, evaluate=5)
    print(result)
    return float(result.evaluation.mean())


def in_bins(episodes: int = 60) -> float:
    """The same of CartPole, learned from 18 states."""
    result = Agent.from_pretrained().solve(Discretize(gym.make("CartPole-v1"), BINS), episodes, seed=0, evaluate=5)
    print(result)
    return float(result.evaluation.mean())


if __name__ == "__main__":
    as_vectors()
    in_bins()
