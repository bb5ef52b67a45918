"""Someone else moves too: catch them, or get away.

Prey, opponents and traffic follow their own habits. To the one who decides they are noise with a pattern, and the
state is where both are.
"""

import numpy as np
from scipy.sparse.csgraph import shortest_path

from mdpfn.arrays import Floats, Ints, normalized
from mdpfn.model.mdp import TabularMDP
from mdpfn.prior.assembly import assemble
from mdpfn.prior.draws import coin
from mdpfn.prior.families.maze import sample_maze
from mdpfn.prior.graphs import sample_graph
from mdpfn.prior.sizes import log_uniform


def sample_pursuit(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """Two on a small graph: the other one wanders, flees or chases; meeting is the goal, or what must not happen.

    Who is chased earns a little at every step it is free, or must reach a place. After a meeting the episode ends, or
    both are put back to where they began.
    """
    if n_states < 4:  # no room for two
        return sample_maze(rng, n_states, n_actions)
    moves = sample_graph(rng, int(np.sqrt(n_states)), n_actions)
    n_places = len(moves)
    if n_places < 2:
        return sample_maze(rng, n_states, n_actions)
    hunted = coin(rng, 0.5)
    other = _habit(rng, moves, towards=hunted)  # (own place, other place, next place of the other)
    mine, theirs = np.divmod(np.arange(n_places**2), n_places)
    me_next = moves[mine][:, :, None]  # (S, D, 1)
    they_next = np.arange(n_places)
    met = (me_next == they_next) | ((me_next == theirs[:, None, None]) & (they_next == mine[:, None, None]))
    probability = other[me_next[:, :, 0], theirs[:, None]]
    begin = int(rng.permutation(np.flatnonzero(mine != theirs))[0])
    ends = coin(rng, 0.7)
    caught = int(theirs[begin]) * (n_places + 1)  # a state where both are at the same place
    next_state = np.where(met, caught if ends else begin, me_next * n_places + they_next)
    terminal = (np.arange(n_places**2) == caught) & ends
    reward = np.where(met, -1.0 if hunted else 1.0, 0.0)
    if hunted:
        refuge = int(rng.integers(n_places))
        safe = (me_next == refuge) & ~met
        reward = reward + (safe if coin(rng, 0.6) else ~met) * log_uniform(rng, 0.02, 1.0)
    elif coin(rng, 0.4):
        reward = reward - log_uniform(rng, 0.003, 0.2)
    return assemble(next_state, probability, reward, begin, terminal)


def _habit(rng: np.random.Generator, moves: Ints, towards: bool) -> Floats:
    """(P, P, P) where the other one goes when I am at i and it is at j: wandering, drawn towards me or away from me."""
    n_places = len(moves)
    adjacency = np.zeros((n_places, n_places))
    adjacency[np.arange(n_places)[:, None], moves] = 1.0
    np.fill_diagonal(adjacency, float(coin(rng, 0.7)))
    adjacency[adjacency.sum(axis=1) == 0, 0] = 1.0
    distance = np.minimum(shortest_path(adjacency, unweighted=True), n_places)
    sign = -1.0 if towards else 1.0
    keenness = 0.0 if coin(rng, 0.3) else log_uniform(rng, 0.3, 5.0)
    return normalized(adjacency * np.exp(sign * keenness * distance.T[:, None, :]))
