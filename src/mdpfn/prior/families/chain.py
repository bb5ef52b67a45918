"""Long roads to a large reward, with crumbs by the wayside.

Studying for a degree, training for a race, developing a product: many right steps in a row pay off at the end, and
giving up early pays a little at once. Agents that take the first small reward for the best there is never find out.
"""

import numpy as np

from mdpfn.model.mdp import TabularMDP
from mdpfn.prior.assembly import assemble
from mdpfn.prior.draws import coin
from mdpfn.prior.sizes import log_uniform

CRUMB = (1e-3, 0.5)  # of the jackpot


def sample_chain(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """One road, or several that start at the same crossing."""
    return (_arms if n_states >= 3 and coin(rng, 0.3) else _road)(rng, n_states, n_actions)


def _road(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """States in a row; in each, one action leads on, the others back to the start, one step back or nowhere.

    The jackpot, 1, is paid beyond the last state; then the episode ends, or one is sent back to the start, or stays and
    may earn it again. Crumbs are paid for a wrong action at the start, for every wrong action, or for leaving early.
    """
    ends = coin(rng, 0.45)
    last = n_states - 2 if ends else n_states - 1
    state = np.arange(n_states)
    same_everywhere = coin(rng, 0.5)
    right_action = np.zeros(n_states, dtype=np.int64) if same_everywhere else rng.integers(n_actions, size=n_states)
    right = np.arange(n_actions) == right_action[:, None]  # (S, A)

    beyond = last + 1 if ends else (0 if coin(rng, 0.3) else last)
    forward = np.where(state == last, beyond, np.minimum(state + 1, n_states - 1))
    kind = rng.random()
    leaves = ends and kind < 0.15
    if leaves:
        behind = np.full(n_states, n_states - 1)
    elif kind < 0.5:
        behind = np.zeros(n_states, dtype=np.int64)
    elif kind < 0.85:
        behind = np.maximum(state - 1, 0)
    else:
        behind = state
    next_state = np.stack([forward, state, behind], axis=-1)[:, None, :].repeat(n_actions, axis=1)

    go_on, turn_back = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])
    if coin(rng, 0.55):  # the road is hard, or runs against a current
        success = rng.uniform(0.25, 0.95)
        stay = 1.0 if leaves or coin(rng, 0.4) else rng.random()
        go_on = np.array([success, (1 - success) * stay, (1 - success) * (1 - stay)])
    if coin(rng, 0.1):
        turn_back = np.array([0.0, rng.uniform(0.1, 0.9), 0.0])
        turn_back[2] = 1 - turn_back[1]
    probability = np.where(right[:, :, None], go_on, turn_back)

    reward = np.zeros(next_state.shape)
    reward[last, right[last], 0] = 1.0
    crumb = log_uniform(rng, *CRUMB) * float(coin(rng, 0.8))
    if leaves or coin(rng, 0.3):
        reward[~right, 2] += crumb
    else:
        reward[0, ~right[0]] += crumb
    if coin(rng, 0.25):
        reward[right, 0] -= log_uniform(rng, 1e-3, 0.5) / n_states
    return assemble(next_state, probability, reward, 0, state == last + 1)


def _arms(rng: np.random.Generator, n_states: int, n_actions: int) -> TabularMDP:
    """A crossing from which each action enters an arm of its own, more or less easily, with its own payoff.

    Arms that are longer or harder to enter mostly pay more. In an arm one action leads on and the others back to the
    crossing; at its end the payoff can be earned again and again, or once before one returns.
    """
    n_arms = min(n_actions, n_states - 1)
    cut = np.sort(rng.permutation(n_states - 2)[: n_arms - 1]) + 1
    first = np.concatenate([[1], cut + 1])
    state = np.arange(n_states)
    arm = np.searchsorted(first, state, side="right") - 1  # −1 at the crossing
    is_last = np.append(arm[1:] != arm[:-1], True)
    length = np.bincount(arm[1:], minlength=n_arms)
    entry = np.exp(rng.uniform(np.log(0.05), 0.0, n_arms)) if coin(rng, 0.5) else np.ones(n_arms)
    payoff = np.exp(rng.uniform(np.log(CRUMB[0]), np.log(CRUMB[1]), n_arms))
    if coin(rng, 0.7):
        payoff[np.argsort(length / entry)] = np.sort(payoff)
    payoff[payoff.argmax()] = 1.0

    right = np.arange(n_actions) == rng.integers(n_actions, size=n_arms)[arm][:, None]
    if coin(rng, 0.3):
        right = np.arange(n_actions) == rng.integers(n_actions, size=n_states)[:, None]
    home = 0 if coin(rng, 0.4) else 1  # 0: back to the crossing after each payoff, 1: stay at the end
    forward = np.where(is_last, state * home, np.minimum(state + 1, n_states - 1))
    success = 1.0 if coin(rng, 0.6) else rng.uniform(0.4, 0.95)
    next_state = np.zeros((n_states, n_actions, 2), dtype=np.int64)
    probability = np.tile([success, 1 - success], (n_states, n_actions, 1))
    reward = np.zeros(next_state.shape)
    next_state[:, :, 0] = np.where(right, forward[:, None], 0)
    next_state[:, :, 1] = np.where(right, state[:, None], 0)
    reward[:, :, 0] = np.where(right & is_last[:, None], payoff[arm][:, None], 0.0)
    next_state[0] = 0
    reward[0] = log_uniform(rng, *CRUMB) * payoff.min() * float(coin(rng, 0.3))
    next_state[0, :n_arms, 0] = first
    probability[0, :n_arms] = np.stack([entry, 1 - entry], axis=-1)
    return assemble(next_state, probability, reward, 0)
