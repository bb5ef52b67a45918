"""Places and the directions that lead from one to another: grids with walls, rooms, rings, trees, maps.

Every sampler returns a (S, D) table of where each direction leads from each place; a blocked direction leads nowhere,
that is, back to the place itself. Directions lie in cyclic order, so the next and the previous one are its sides and
the one D/2 further is its opposite. The first and the last place lie far apart.
"""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from mdpfn.arrays import Bools, Ints
from mdpfn.prior.draws import coin, one_of, whole
from mdpfn.prior.sizes import log_uniform

# (row, column) steps in cyclic order. Two or three directions cover a grid only when its edges are joined.
COMPASS = {
    2: np.array([(0, 1), (1, 0)]),
    3: np.array([(0, 1), (1, 0), (0, -1)]),
    4: np.array([(0, 1), (1, 0), (0, -1), (-1, 0)]),
    6: np.array([(0, 1), (1, 0), (1, -1), (0, -1), (-1, 0), (-1, 1)]),
    8: np.array([(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1)]),
}


def sample_graph(rng: np.random.Generator, n_states: int, n_directions: int) -> Ints:
    """(≤ S, ≤ D) moves on a random graph; at least two places and two directions."""
    kind = rng.random()
    if n_states < 4 or kind < 0.12:
        return line(rng, n_states, n_directions)
    if kind < 0.22 and n_directions >= 3:
        return tree(rng, n_states, n_directions)
    if kind < 0.34 and n_directions >= 3:
        return landscape(rng, n_states, n_directions)
    return grid(rng, n_states, n_directions)


def line(rng: np.random.Generator, n_states: int, n_directions: int) -> Ints:
    """A line or a ring, forwards and backwards, sometimes with leaps as two more directions."""
    here = np.arange(n_states)[:, None]
    steps = [1, -1]
    if n_directions >= 4 and n_states >= 8 and coin(rng, 0.4):
        leap = whole(rng, 2, n_states // 3)
        steps = [1, leap, -1, -leap]
    there = here + np.array(steps)
    moves: Ints = there % n_states if coin(rng, 0.4) else np.clip(there, 0, n_states - 1)
    return moves


def tree(rng: np.random.Generator, n_states: int, n_directions: int) -> Ints:
    """A tree that grows at random; directions are up and one per child."""
    n_children = whole(rng, 2, min(n_directions - 1, 4))
    moves = np.tile(np.arange(n_states)[:, None], (1, n_children + 1))
    free = [(0, child) for child in range(1, n_children + 1)]
    for state, u in enumerate(rng.random(n_states - 1).tolist(), start=1):
        parent, child = free.pop(int(u * len(free)))
        moves[parent, child] = state
        moves[state, 0] = parent
        free.extend((state, child) for child in range(1, n_children + 1))
    return moves


def landscape(rng: np.random.Generator, n_states: int, n_directions: int) -> Ints:
    """Points in the plane; a direction leads to the nearest point in its sector."""
    n_directions = whole(rng, 3, min(n_directions, 8))
    x = rng.random((n_states, 2))
    x = x[x.sum(axis=1).argsort()]
    gap = x[None, :, :] - x[:, None, :]
    angle = np.arctan2(gap[..., 1], gap[..., 0]) / (2 * np.pi)  # in turns
    sector = np.rint(angle * n_directions).astype(np.int64) % n_directions
    distance = (gap**2).sum(-1)
    np.fill_diagonal(distance, np.inf)
    distance = np.where(sector[:, None, :] == np.arange(n_directions)[:, None], distance[:, None, :], np.inf)
    nearest = distance.argmin(axis=-1)
    return np.where(np.isfinite(distance.min(axis=-1)), nearest, np.arange(n_states)[:, None])


def grid(rng: np.random.Generator, n_states: int, n_directions: int) -> Ints:
    """A grid of any shape: open, with blocked cells, in rooms, or a labyrinth of thin walls."""
    n_directions = one_of(rng, [d for d in (4, 4, 4, 6, 8) if d <= n_directions] or [n_directions])
    joined = n_directions < 4 or coin(rng, 0.07)
    walls = rng.random()
    blocked_share = rng.uniform(0.05, 0.35) if walls < 0.3 and not joined else 0.0
    n_cells = int(n_states / (1 - blocked_share))
    width = int(np.clip(np.sqrt(n_cells) * log_uniform(rng, 0.5, 2.0), 2, n_cells // 2))
    height = n_cells // width
    row, column = np.divmod(np.arange(height * width), width)
    r, c = (here[:, None] + step for here, step in zip((row, column), COMPASS[n_directions].T, strict=True))
    if joined:
        moves: Ints = (r % height) * width + c % width
        return moves
    inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
    moves = np.where(inside, r * width + c, np.arange(height * width)[:, None])
    if walls < 0.3:
        blocked = np.zeros(height * width, dtype=bool)
        blocked[rng.permutation(height * width)[: height * width - int(n_cells * (1 - blocked_share))]] = True
        return _without(moves, blocked)
    if walls < 0.45 and min(height, width) >= 4:
        return _without(moves, _room_walls(rng, height, width))
    if walls < 0.65 and n_directions == 4:
        return _labyrinth(rng, moves)
    return moves


def _room_walls(rng: np.random.Generator, height: int, width: int) -> Bools:
    """(cells,) walls across the grid, each side of a crossing with a door."""
    blocked = np.zeros((height, width), dtype=bool)
    middle, centre = whole(rng, 1, height - 2), whole(rng, 1, width - 2)
    crossing = coin(rng, 0.6)
    blocked[middle] = True
    if crossing:
        blocked[:, centre] = True
        blocked[one_of(rng, range(middle)), centre] = False
        blocked[one_of(rng, range(middle + 1, height)), centre] = False
    blocked[middle, one_of(rng, range(centre))] = False
    if crossing or coin(rng, 0.3):
        blocked[middle, one_of(rng, range(centre + 1, width))] = False
    return blocked.reshape(-1)


def _labyrinth(rng: np.random.Generator, moves: Ints) -> Ints:
    """The moves along a random spanning tree and some of the other edges, which keeps every place reachable."""
    n_states, half = len(moves), moves.shape[1] // 2
    here = np.arange(n_states)[:, None]
    forward = moves[:, :half]
    source, direction = np.nonzero(forward != here)
    weight = 1 + rng.random(len(source))
    edges = csr_array((weight, (source, forward[source, direction])), shape=(n_states, n_states))
    in_tree = minimum_spanning_tree(edges).toarray()[here, forward] > 0
    passable = in_tree | (rng.random(forward.shape) < one_of(rng, (0.0, 0.1, 0.3, 0.6)))
    passable_back = passable[moves[:, half:], np.arange(half)]
    return np.where(np.concatenate([passable, passable_back], axis=1), moves, here)


def _without(moves: Ints, blocked: Bools) -> Ints:
    """The moves among the largest connected set of cells that are not blocked."""
    here = np.arange(len(moves))[:, None]
    moves = np.where(blocked[moves] | blocked[:, None], here, moves)
    row_start = np.arange(len(moves) + 1) * moves.shape[1]
    graph = csr_array((np.ones(moves.size), moves.reshape(-1), row_start), shape=(len(moves), len(moves)))
    _, label = connected_components(graph, directed=False)
    kept = label == np.bincount(label).argmax()
    new_id = np.cumsum(kept) - 1
    renamed: Ints = new_id[moves[kept]]
    return renamed
