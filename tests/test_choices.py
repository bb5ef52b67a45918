"""Solutions from values that were nearly right: the same as from scratch, to rounding or to their tolerance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdpfn.arrays import offsets_of
from mdpfn.model import choices as module
from mdpfn.model.choices import Choices, Solution, solve, swept


def random_choices(seed: int, n: int, *, certain: bool, mean_outside: bool, weight: float) -> Choices:
    """Some states with one to four choices each, some of which end, stay, or lead outside."""
    rng = np.random.default_rng(seed)
    n_choices = rng.integers(1, 5, size=n)
    state = np.repeat(np.arange(n), n_choices)
    n_entries = np.ones(len(state), np.int64) if certain else rng.integers(1, 4, size=len(state))
    start = offsets_of(n_entries)[:-1]
    row = np.repeat(np.arange(len(state)), n_entries)
    share = rng.random(len(row)) + 0.1
    probability = share / np.bincount(row, share)[row] * (rng.random(len(row)) < 0.9)  # some ends
    return Choices(
        first=offsets_of(n_choices)[:-1],
        state=state,
        start=start,
        following=rng.integers(n + 1, size=len(row)),
        probability=probability,
        gain=rng.choice([0.0, 0.0, 1.0, -0.5, rng.normal()], size=len(state)),
        weight=weight * rng.choice([1.0, 0.5], size=len(state)),
        floor=np.where(rng.random(n) < 0.3, rng.normal(size=n), -np.inf),
        outside=None if mean_outside else float(rng.normal()),
    )


def from_scratch(choices: Choices) -> Solution:
    """Dense value iteration from zero until nothing changes."""
    n = len(choices.first)
    row = np.repeat(np.arange(len(choices.state)), np.diff(choices.start, append=len(choices.following)))
    p = np.zeros((len(choices.state), n + 1))
    np.add.at(p, (row, choices.following), choices.probability)
    value = np.zeros(n)
    while True:
        outside = value.mean() if choices.outside is None else choices.outside
        q = choices.gain + choices.weight * (p @ np.append(value, outside))
        best = choices.floor.copy()
        np.maximum.at(best, choices.state, q)
        change, value = np.abs(best - value).max(), best
        if change < 1e-13:
            return Solution(q, value)


problems = st.builds(
    random_choices,
    st.integers(0, 10**6),
    st.integers(1, 30),
    certain=st.booleans(),
    mean_outside=st.booleans(),
    weight=st.sampled_from([0.0, 0.5, 0.9, 0.98]),
)


@settings(max_examples=150, deadline=None)
@given(problems, st.integers(0, 10**6), st.sampled_from(["few", "many"]))
def test_it_is_the_full_solution_wherever_it_starts(choices, seed, size):
    expected = from_scratch(choices)
    with pytest.MonkeyPatch.context() as patch:
        if size == "many":
            patch.setattr(module, "DENSE_STATES", 0)
        found = solve(choices, np.random.default_rng(seed).normal(size=len(choices.first)) * 3, 1e-3)
    np.testing.assert_allclose(found.value, expected.value, atol=1e-8)
    np.testing.assert_allclose(found.q, expected.q, atol=1e-8)


@settings(max_examples=150, deadline=None)
@given(problems, st.integers(0, 10**6), st.sampled_from([1e-2, 1e-5]))
def test_sweeps_end_within_their_tolerance(choices, seed, tolerance):
    """A residual of ε leaves an error of ε / (1 − γ) at most; where the mean is meant, a step to it counts as one."""
    expected = from_scratch(choices)
    found = swept(choices, np.random.default_rng(seed).normal(size=len(choices.first)), tolerance, 10**6)
    largest = choices.weight.max()
    assert np.abs(found.value - expected.value).max() <= 2.1 * tolerance / (1 - largest)


def test_a_change_far_away_costs_few_visits(monkeypatch):
    """A corridor of 2,000 states in which slipping means staying; what the last pays changes."""
    n, visited = 2_000, []
    state = np.arange(n)
    corridor = Choices(
        first=state,
        state=state,
        start=2 * state,
        following=np.stack([state, state + 1], axis=1).reshape(-1),
        probability=np.full(2 * n, 0.5),
        gain=np.where(state == n - 1, 1.0, 0.0),
        weight=np.full(n, 0.9),
        floor=np.full(n, -np.inf),
        outside=0.0,
    )
    before = swept(corridor, np.zeros(n), 1e-6, 10**6)
    changed = replace(corridor, gain=1.1 * corridor.gain)
    visit, visit_all = module._Sweep.visit, module._Sweep.visit_all
    monkeypatch.setattr(
        module._Sweep, "visit", lambda self, due, *rest: (visited.append(len(due)), visit(self, due, *rest))
    )
    monkeypatch.setattr(module._Sweep, "visit_all", lambda self, *rest: (visited.append(n), visit_all(self, *rest)))
    found = swept(changed, before.value, 1e-6, 10**6)
    np.testing.assert_allclose(found.value, from_scratch(changed).value, atol=1e-4)
    assert visited[0] == n
    assert sum(visited[1:]) < 0.05 * n * len(visited)


def test_large_models_are_swept_and_go_on_where_they_ended():
    choices = random_choices(0, 400, certain=False, mean_outside=True, weight=0.99)
    value, expected = np.zeros(400), from_scratch(choices).value
    errors = []
    for _ in range(30):
        value = solve(choices, value, 1e-6).value
        errors.append(np.abs(value - expected).max())
    assert errors[0] > 1e-2 > errors[-1]


def test_a_large_certain_model_is_exact():
    choices = random_choices(1, 3_000, certain=True, mean_outside=True, weight=0.95)
    found = solve(choices, np.zeros(3_000), 1e-3)
    expected = swept(choices, np.zeros(3_000), 1e-12, 10**5)
    np.testing.assert_allclose(found.value, expected.value, atol=1e-9)
