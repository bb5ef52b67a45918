"""The constants of predictions by factors."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FactoredConfig:
    """When rules are trusted, and how many visits their predictions count; the same for every problem."""

    largest_subset: int = 3  # factors that an outcome may depend on
    most_subsets: int = 200  # of one size; beyond, only smaller ones are looked at
    evidence: float = 3.0  # in nats: how unlikely it must be that one of the subsets looked at foretells by chance
    least_trust: float = 0.9  # how often such an outcome must have come true before any is predicted
    idle_trust: float = 0.7  # the most for "nothing happens", of an action that was never seen to do anything
    idle_strength: int = 3  # "nothing happens" is believed where every combination of so many factors was tried
    even_visits: float = 0.014  # visits that a prediction counts with even odds: what explorers hold to be even …
    odds_exponent: float = 1.2  # … and how they go on from there (`EarningConfig`)
    most_visits: float = 1.0  # that a prediction counts
    factor_price: float = 2.0  # in nats: what one more factor must add to the likelihood of noisy outcomes
    shrinkage: float = 0.5  # visits to a context that what its action does anywhere is worth
    largest_noisy_subset: int = 2  # factors that something left to chance may depend on
    own_visits: float = 4.0  # visits that a context is worth beside a pair's own, when it is asked if both are alike
    most_noisy_visits: float = 4.0  # that the prediction of something noisy counts
    most_successors: int = 32  # of a predicted pair
    most_states: int = 5_000  # beyond, only states that were seen are predicted
    most_factors: int = 40  # beyond, states are just numbers
