"""Landmarks on a graph of places: goals, pits, tolls, and costs of moving."""

from typing import NamedTuple

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints
from mdpfn.model.mdp import TabularMDP
from mdpfn.prior.assembly import assemble
from mdpfn.prior.draws import coin, whole
from mdpfn.prior.sizes import log_uniform


class Landmarks(NamedTuple):
    """Where one starts, what entering a state pays, and where one is after that."""

    start: int
    entry_reward: Floats  # (S,)
    destination: Ints  # (S,) the state itself, or the start where entering sends one back
    terminal: Bools  # (S,)

    def laid_over(self, next_state: Ints, probability: Floats, pair_reward: Floats | float = 0.0) -> TabularMDP:
        """The MDP of these moves, (S, A, O), with these landmarks on them."""
        reward = self.entry_reward[next_state] + pair_reward
        return assemble(self.destination[next_state], probability, reward, self.start, self.terminal)


def sample_landmarks(rng: np.random.Generator, n_states: int) -> Landmarks:
    """One goal worth 1 (sometimes several, the others worth less), in half of the worlds pits, costs of moving.

    The best goal often lies at the last state with the start at the first, which graphs number to be far apart.
    Entering a goal or a pit ends the episode, sends back to the start, or just pays. In a fifth of the worlds the
    goal itself pays nothing and what counts is to get there soon.
    """
    order = rng.permutation(n_states)
    if coin(rng, 0.4):
        order = np.concatenate([[0, n_states - 1], order[(order != 0) & (order != n_states - 1)]])
    start = int(order[0])
    n_goals = 1 if coin(rng, 0.6) else whole(rng, 1, min(5, n_states // 3))
    n_pits = 0 if coin(rng, 0.5) else whole(rng, 1, n_states // 4)
    goals, pits = order[1 : 1 + n_goals], order[1 + n_goals : 1 + n_goals + n_pits]

    entry = np.zeros(n_states)
    hurry = coin(rng, 0.2)
    if not hurry:
        crumbs = coin(rng, 0.4)
        entry[goals] = np.exp(rng.uniform(np.log(0.001), np.log(0.5), len(goals))) if crumbs else rng.random(len(goals))
        entry[goals[:1]] = 1.0
    if coin(rng, 0.6):
        entry[pits] = -log_uniform(rng, 0.1, 10.0) * (log_uniform(rng, 1.0, 10.0) if hurry else 1.0)
    if coin(rng, 0.15):
        entry -= (rng.random(n_states) < rng.uniform(0.05, 0.5)) * rng.uniform(0.02, 0.5)
    if hurry:
        entry -= 1.0
        entry[goals] += float(coin(rng, 0.5))
    elif coin(rng, 0.4):
        entry -= log_uniform(rng, 0.002, 0.2)

    terminal = np.zeros(n_states, dtype=bool)
    destination = np.arange(n_states)
    fate = rng.random()
    if fate < 0.7 or hurry:
        terminal[goals] = True
    elif fate < 0.9:
        destination[goals] = start
    if coin(rng, 0.35):
        destination[pits] = start
    elif coin(rng, 0.9):
        terminal[pits] = True
    return Landmarks(start, entry, destination, terminal)
