"""What tables of the same structure share is what each of them would have found alone."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from mdpfn.evidence import PairTable, Statistics, Transition
from mdpfn.evidence.layout import Layout
from mdpfn.evidence.pooling import pooled
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.network.packing import pack
from mdpfn.planners.problem_info import ProblemInfo

N_STATES, N_ACTIONS = 6, 2


def random_transition(rng: np.random.Generator, often_ends: float) -> Transition:
    """A step of a noisy ring; episodes end in its last state, sometimes or always."""
    state, action = int(rng.integers(N_STATES - 1)), int(rng.integers(N_ACTIONS))
    following = (state + action + int(rng.random() < 0.3)) % N_STATES
    ends = following == N_STATES - 1 and rng.random() < often_ends
    return Transition(state, action, float(rng.random() < 0.2), following, terminated=bool(ends))


@pytest.mark.parametrize("often_ends", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("goes_on", [False, True])
def test_tokens_of_a_life_are_those_of_each_table_alone(often_ends, goes_on):
    """Also where episodes go on from a state in which others ended, and where a known transition ends for once."""
    rng, history, shared = np.random.default_rng(0), Statistics(N_STATES, N_ACTIONS), 0
    last: PairTable | None = None
    for step in range(150):
        history.add(random_transition(rng, often_ends))
        if goes_on and step == 60:
            history.add(Transition(N_STATES - 1, 0, 0.0, 0))
        table = pooled(history.table())
        shared += last is not None and table.structure is last.structure
        last, alone = table, replace(table)
        assert alone.structure is not table.structure
        here, there = (pack(EmpiricalModel.of(z), ProblemInfo.of()) for z in (table, alone))
        for field in fields(here):
            np.testing.assert_array_equal(getattr(here, field.name), getattr(there, field.name), err_msg=field.name)
    assert 50 < shared < 150


def test_other_pairs_successors_endings_or_states_are_another_structure():
    history = Statistics(4, 2)
    history.add(Transition(0, 0, 0.0, 1))
    known = history.table()
    assert history.table() is known
    history.add(Transition(0, 0, 1.0, 1))
    assert history.table().structure is known.structure
    assert Layout.of(history.table()) is Layout.of(known)
    changes = (
        lambda: history.add(Transition(0, 0, 0.0, 1, terminated=True)),
        lambda: history.add(Transition(0, 0, 0.0, 2)),
        lambda: history.add(Transition(1, 0, 0.0, 2)),
        lambda: history.make_room(5),
        lambda: history.allow(0, (True, False)),
    )
    for change in changes:
        before = history.table()
        change()
        assert history.table().structure is not before.structure
