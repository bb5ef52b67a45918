"""Finding the way: moves in fixed directions among places with walls, slippery ground and wind.

Robots, vehicles and packets move on floors, streets and networks. An action means the same direction everywhere,
obstacles block it, and the ground does not always obey.
"""

import numpy as np

from mdpfn.arrays import Floats
from mdpfn.model.mdp import TabularMDP
from mdpfn.prior.draws import coin
from mdpfn.prior.graphs import sample_graph
from mdpfn.prior.landmarks import sample_landmarks


def sample_maze(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """Landmarks on a random graph, with a slip model common to all places and sometimes wind in some of them."""
    moves = sample_graph(rng, n_states, n_actions)
    n_places, n_directions = moves.shape
    here = np.arange(n_places)[:, None]
    next_state = np.concatenate([moves, here], axis=1)[:, None, :].repeat(n_directions, axis=1)
    probability = sample_slip(rng, n_directions)
    if coin(rng, 0.12):  # wind: after the move, one is blown in one direction
        strength = rng.uniform(0.1, 1.0)
        windy = rng.random(n_places) < rng.uniform(0.2, 1.0)
        blown = np.where(windy, moves[:, int(rng.integers(n_directions))], here[:, 0])
        next_state = np.concatenate([next_state, blown[next_state]], axis=-1)
        probability = np.concatenate([probability * (1 - strength), probability * strength], axis=-1)
    return sample_landmarks(rng, n_places).laid_over(next_state, probability)


def sample_slip(rng: np.random.Generator, n_directions: int) -> Floats:
    """(D, D + 1) probability of really going in each direction, or of staying (last), for each intended one.

    Half of the worlds obey. Otherwise a share of the moves goes sideways, anywhere, backwards or nowhere.
    """
    slip = np.zeros((n_directions, n_directions + 1))
    intended = np.arange(n_directions)
    slip[intended, intended] = 1.0
    kind = rng.random()
    if kind < 0.5:
        return slip
    share = rng.uniform(0.05, 0.7)
    slip *= 1 - share
    if kind < 0.7:
        slip[intended, (intended + 1) % n_directions] += share / 2
        slip[intended, (intended - 1) % n_directions] += share / 2
    elif kind < 0.83:
        slip[:, :-1] += share / n_directions
    elif kind < 0.95:
        slip[:, -1] += share
    else:
        slip[intended, (intended + n_directions // 2) % n_directions] += share
    return slip
