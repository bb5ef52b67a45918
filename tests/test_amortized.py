"""What is kept from plan to plan changes nothing but the time: tables, rows and whole lives are as from scratch."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from benchmarks.from_scratch import observed_life
from hypothesis import given, settings
from hypothesis import strategies as st

from mdpfn import Agent
from mdpfn.bench.environments import ENVIRONMENTS, TabularEnv
from mdpfn.evidence import PairTable, Statistics, Transition
from mdpfn.exploration.rows import Rows

N_STATES, N_ACTIONS = 6, 3
transitions = st.builds(
    Transition,
    st.integers(0, N_STATES - 1),
    st.integers(0, N_ACTIONS - 1),
    st.sampled_from([0.0, 1.0, -2.5]),
    st.integers(0, N_STATES - 1),
    st.booleans(),
)
masks = st.tuples(st.integers(0, N_STATES), st.tuples(*[st.booleans()] * N_ACTIONS))
events = st.one_of(
    st.tuples(st.just("add"), transitions),
    st.tuples(st.just("take back"), transitions),
    st.tuples(st.just("mask"), masks),
    st.tuples(st.just("take back mask"), masks),
    st.tuples(st.just("room"), st.integers(N_STATES, N_STATES + 3)),
    st.tuples(st.just("table"), st.none()),
)


def made_anew(statistics: Statistics) -> PairTable:
    """The table without anything from the one before."""
    statistics._table = statistics._base = None
    return statistics.table()


def happen(statistics: Statistics, kind: str, what: object) -> None:
    match kind, what:
        case "add", Transition():
            statistics.add(what)
        case "take back", Transition():
            before = statistics.before(what)
            statistics.add(what)
            statistics.table()
            statistics.take_back(before)
        case "mask", (int(state), tuple(actions)):
            statistics.make_room(state + 1)
            statistics.allow(state, actions)
        case "take back mask", (int(state), tuple(actions)):
            before = statistics.before_naming(state)
            statistics.make_room(state + 1)
            statistics.allow(state, actions)
            statistics.table()
            statistics.take_back_naming(before)
        case "room", int(n_states):
            statistics.make_room(n_states)
        case _:
            statistics.table()


def assert_same(found: PairTable, expected: PairTable) -> None:
    for field in fields(PairTable):
        np.testing.assert_array_equal(getattr(found, field.name), getattr(expected, field.name), field.name)


@settings(max_examples=300, deadline=None)
@given(st.lists(events, max_size=40))
def test_a_table_with_some_rows_renewed_is_the_table(history):
    renewed, anew, last = Statistics(N_STATES, N_ACTIONS), Statistics(N_STATES, N_ACTIONS), None
    for event in history:
        happen(renewed, *event)
        happen(anew, *event)
        if event[0] == "table":
            table = renewed.table()
            assert_same(table, made_anew(anew))
            last = Rows.of(table, last)
            fresh = vars(Rows.of(replace(table, pair=table.pair.copy())))
            for name in vars(last).keys() - {"outline"}:
                np.testing.assert_array_equal(getattr(last, name), fresh[name], name)
    assert_same(renewed.table(), made_anew(anew))


def test_where_nothing_leads_anywhere_new_the_outline_is_kept():
    statistics = Statistics(3, 2)
    for state in (0, 1):
        statistics.add(Transition(state, 0, 1.0, state + 1))
    first = Rows.of(statistics.table())
    statistics.add(Transition(0, 0, 0.0, 1))
    same = Rows.of(statistics.table(), first)
    statistics.add(Transition(0, 1, 0.0, 1))
    other = Rows.of(statistics.table(), same)
    assert same.outline is first.outline
    assert other.outline is not first.outline
    assert same.noisy.tolist() == [True, False]


@pytest.mark.parametrize("name", ["frozen-lake", "river-swim-6", "garnet-10-3-2", "gridworld-5x5", "deep-sea-6"])
def test_a_life_is_the_same_as_planned_from_scratch_every_time(name):
    environment = ENVIRONMENTS[name]
    mdp, lives = environment.build(), []
    for from_scratch in (False, True):
        agent = Agent.from_pretrained()
        with observed_life(from_scratch=from_scratch) as life:
            agent.solve(TabularEnv(mdp, horizon=min(environment.horizon, 30)), 8, seed=0, discount=mdp.discount)
        lives.append((life.actions, life.n_plans, agent.problem.history.returns))
    assert len(lives[0][0]) > 40
    assert lives[0] == lives[1]
