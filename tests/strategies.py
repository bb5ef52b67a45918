"""Random problems for property-based tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from mdpfn.evidence import Statistics, Transition
from mdpfn.model.mdp import TabularMDP

seeds = st.integers(0, 2**32 - 1)


@st.composite
def statistics(draw: st.DrawFn, max_states: int = 9, max_actions: int = 5) -> Statistics:
    """Any size from one state and one action; nothing, little or much observed; some states absorbing."""
    n_states, n_actions = draw(st.integers(1, max_states)), draw(st.integers(1, max_actions))
    rng = np.random.default_rng(draw(seeds))
    n_transitions = draw(st.sampled_from([0, 1, 3, 10, 40, 200]))
    absorbing = rng.random(n_states) < draw(st.sampled_from([0.0, 0.3, 1.0]))
    spread = draw(st.sampled_from([1, 2, n_states]))
    result = Statistics(n_states, n_actions)
    for _ in range(n_transitions):
        state, action = int(rng.integers(n_states)), int(rng.integers(n_actions))
        successor = (state + action + int(rng.integers(spread))) % n_states
        result.add(Transition(state, action, float(rng.normal()), state if absorbing[state] else successor))
    return result


@st.composite
def mdps(draw: st.DrawFn, max_states: int = 8, max_actions: int = 4) -> TabularMDP:
    """Dense or sparse rows, terminal states or none, any discount."""
    n_states, n_actions = draw(st.integers(1, max_states)), draw(st.integers(1, max_actions))
    rng = np.random.default_rng(draw(seeds))
    concentration = draw(st.sampled_from([0.05, 1.0]))
    transition = rng.dirichlet(np.full(n_states, concentration), (n_states, n_actions))
    transition = np.nan_to_num(transition, nan=0.0)
    dead = transition.sum(-1) < 0.5  # a Dirichlet of tiny concentration can underflow
    transition[dead] = np.eye(n_states)[0]
    return TabularMDP.from_dense(
        transition,
        rng.normal(size=(n_states, n_actions)),
        discount=draw(st.sampled_from([0.0, 0.5, 0.95, 0.99])),
        terminal=rng.random(n_states) < draw(st.sampled_from([0.0, 0.4])),
    )
