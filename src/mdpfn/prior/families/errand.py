"""Errands: being somewhere is not enough, something must be done there first.

Fetch a key and open a door, pick up a passenger and drop them off, visit three shops and go home. The state is a place
together with what has been done so far; acting at the wrong place or time is a mistake that costs.
"""

import numpy as np

from mdpfn.arrays import Bools, Floats, Ints
from mdpfn.model.mdp import TabularMDP
from mdpfn.prior.assembly import assemble
from mdpfn.prior.draws import coin, whole
from mdpfn.prior.families.maze import sample_slip
from mdpfn.prior.graphs import sample_graph
from mdpfn.prior.sizes import log_uniform

DETERMINISTIC = 0.7  # share of worlds in which moves do not slip


def sample_errand(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """Places × progress: what has been done, in a fixed order or in any, perhaps for one of several jobs.

    Something is done by special actions or just by arriving; the last thing done ends the job with the reward 1,
    each one before may pay a little. A job ends the episode, or the next one begins where one stands.
    """
    n_things = 1 if n_states < 8 else whole(rng, 1, 3)
    any_order = n_things > 1 and n_states >= 16 and coin(rng, 0.4)
    n_jobs = 1 if any_order or n_states < 24 or coin(rng, 0.6) else whole(rng, 2, 4)
    n_progress = 2**n_things if any_order else n_things + 1  # the last: all is done
    n_levels = n_jobs * (n_progress - 1)
    by_hand = n_actions >= 3 and coin(rng, 0.7)
    n_hands = min(n_things, n_actions - 2) if by_hand and coin(rng, 0.5) else int(by_hand)

    moves = sample_graph(rng, max(2, (n_states - 1) // n_levels), n_actions - n_hands)
    n_places, n_directions = moves.shape
    spot = rng.random((n_jobs, n_places)).argsort(axis=1)[:, np.arange(n_things) % n_places]  # (jobs, things)
    done_after = _progress_after(n_things, any_order)  # (progress − 1, things)

    slip = sample_slip(rng, n_directions)
    if coin(rng, DETERMINISTIC):
        slip = np.eye(n_directions, n_directions + 1)
    here = np.arange(n_places)[:, None]
    walk = np.concatenate([moves, here], axis=1)[:, None, :].repeat(n_directions, axis=1)
    stand = np.broadcast_to(here[:, :, None], (n_places, n_hands, n_directions + 1))
    arrive = np.concatenate([walk, stand], axis=1)  # (places, actions, D + 1)
    probability = np.concatenate([slip, np.tile(np.eye(n_directions + 1)[-1], (n_hands, 1))])

    # (jobs, progress, places, actions, outcomes)
    shape = (n_jobs, n_progress - 1, *arrive.shape)
    job, progress = np.arange(n_jobs).reshape(-1, 1, 1, 1, 1), np.arange(n_progress - 1).reshape(-1, 1, 1, 1)
    action = np.arange(arrive.shape[1])[:, None]
    new_progress = np.broadcast_to(progress, shape)
    for thing in range(n_things):
        means = action == n_directions + thing % n_hands if n_hands else True
        now = (arrive == spot[job, thing]) & means
        new_progress = np.where(now, np.maximum(new_progress, done_after[progress, thing]), new_progress)
    reward = _rewards(rng, new_progress, np.broadcast_to(progress, shape), n_progress, action >= n_directions)

    finished = new_progress == n_progress - 1
    next_state = (job * (n_progress - 1) + new_progress) * n_places + arrive
    ends = n_states > 2 and coin(rng, 0.75)
    n_used = n_levels * n_places
    next_state = np.where(finished, n_used if ends else arrive, next_state)
    flat = next_state.reshape(n_used, *arrive.shape[1:])
    reward = reward.reshape(flat.shape)
    begin = np.zeros(n_used + ends)
    first = np.arange(n_jobs) * (n_progress - 1) * n_places
    begin[(first[:, None] + (np.arange(n_places) if coin(rng, 0.3) else whole(rng, 0, n_places - 1))).reshape(-1)] = 1.0
    terminal = np.arange(n_used + ends) == n_used
    if ends:
        flat, reward = (np.concatenate([x, x[:1]]) for x in (flat, reward))
    return assemble(flat, probability, reward, begin / begin.sum(), terminal)


def _progress_after(n_things: int, any_order: bool) -> Ints:
    """(progress − 1, things) how far one is after doing a thing at each progress; unchanged if it was not its turn."""
    thing = np.arange(n_things)
    if any_order:
        after: Ints = np.arange(2**n_things - 1)[:, None] | (1 << thing)
        return after
    progress = np.arange(n_things)[:, None]
    return np.where(progress == thing, progress + 1, progress)


def _rewards(rng: np.random.Generator, new_progress: Ints, progress: Ints, n_progress: int, by_hand: Bools) -> Floats:
    """The reward of each outcome: 1 for finishing, perhaps a little for each thing done, less costs and mistakes."""
    changed = new_progress != progress
    step_cost = log_uniform(rng, 0.003, 0.1) * float(coin(rng, 0.5))
    mistake = log_uniform(rng, 0.01, 1.0) * float(coin(rng, 0.6))
    partial = log_uniform(rng, 0.01, 0.7) * float(coin(rng, 0.4))
    paid = np.where(new_progress == n_progress - 1, 1.0, partial * changed)
    reward: Floats = paid - step_cost - mistake * (by_hand & ~changed)
    return reward
