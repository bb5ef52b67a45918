"""Discrete states made of factors: what is predicted of untried pairs, and where nothing is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from benchmarks.factored_worlds import WORLDS, FactoredEnv, FactoredWorld, machines

from mdpfn import Agent, MdpfnError
from mdpfn.evidence import PairTable, Statistics, Transition
from mdpfn.evidence.factored.completion import Completion
from mdpfn.evidence.factored.factors import Factors
from mdpfn.spaces.codec import DiscreteCodec
from mdpfn.spaces.encoding import codec_of
from mdpfn.spaces.features import StateFactors


def tried(world: FactoredWorld, n: int, seed: int = 0) -> tuple[Statistics, Factors]:
    """Statistics of n random steps from random states, and the factors of all states."""
    rng, factors = np.random.default_rng(seed), Factors.of_product(world.sizes)
    seen = Statistics(len(factors.codes), world.n_actions)
    for _ in range(n):
        state, action = int(rng.integers(len(factors.codes))), int(rng.integers(world.n_actions))
        after, reward, ended = world.step(tuple(factors.codes[state].tolist()), action, rng)
        seen.add(Transition(state, action, reward, int(np.ravel_multi_index(after, world.sizes)), ended))
    return seen, factors


class Fixed:
    """The factors of states that are all there from the start."""

    features = None

    def __init__(self, factors: Factors) -> None:
        self.factors = factors

    def __call__(self, n_states: int) -> Factors:
        assert n_states == len(self.factors.codes)
        return self.factors

    def table(self) -> None:
        return None


def predicted(world: FactoredWorld, n: int, seed: int = 0) -> tuple[PairTable, PairTable]:
    """The table that was observed, and its completion."""
    seen, factors = tried(world, n, seed)
    return seen.table(), Completion(Fixed(factors))(seen.table())


@pytest.mark.parametrize("name", ["keys and doors", "rooms", "lights out"])
def test_predictions_of_a_certain_world_come_true(name: str) -> None:
    """The slow oracle is the world itself."""
    world = WORLDS[name]()
    observed, full = predicted(world, 600)
    codes, rng = Factors.of_product(world.sizes).codes, np.random.default_rng(1)
    new = ~np.isin(full.pair, observed.pair)
    assert new.sum() > 100
    right = 0
    for row in np.flatnonzero(new):
        after, reward, _ = world.step(tuple(codes[full.state[row]].tolist()), int(full.action[row]), rng)
        (at,) = np.flatnonzero(full.transition_row == row)
        same = np.ravel_multi_index(after, world.sizes) == full.successor[at]
        right += bool(same and np.isclose(full.mean_reward[row], reward))
    assert right >= 0.97 * new.sum()


@pytest.mark.parametrize("name", ["keys and doors", "machines", "slippery errand"])
def test_what_was_observed_stays_as_it_is(name: str) -> None:
    observed, full = predicted(WORLDS[name](), 400)
    assert (np.diff(full.pair) > 0).all()
    mine = np.isin(full.pair, observed.pair)
    assert mine.sum() == len(observed.pair) < len(full.pair)
    for part in ("n_visits", "reward_sum", "reward_square_sum", "n_successors"):
        np.testing.assert_array_equal(getattr(full, part)[mine], getattr(observed, part))
    entries = mine[full.transition_row]
    for part in ("successor", "transition_count", "n_terminated"):
        np.testing.assert_array_equal(getattr(full, part)[entries], getattr(observed, part))
    total = np.bincount(full.transition_row, weights=full.transition_count)
    np.testing.assert_allclose(total, full.n_visits)


def test_noise_that_is_independent_is_foretold_as_such() -> None:
    world = WORLDS["machines"]()
    observed, full = predicted(world, 1500)
    row = int(np.flatnonzero(~np.isin(full.pair, observed.pair) & (full.action == 4))[0])
    codes = Factors.of_product(world.sizes).codes
    here, mine = codes[full.state[row]], full.transition_row == row
    share = full.transition_count[mine] / full.n_visits[row]
    for j in np.flatnonzero(here < 3):
        worn = codes[full.successor[mine]][:, j] == here[j] + 1
        assert share[worn].sum() == pytest.approx(0.3, abs=0.12)
    assert full.mean_reward[row] == pytest.approx((here < 3).sum())


@pytest.mark.parametrize("name", ["scrambled", "scrambled, noisy"])
def test_where_factors_mean_nothing_next_to_nothing_is_predicted(name: str) -> None:
    for seed, n in enumerate((30, 100, 200)):
        observed, full = predicted(WORLDS[name](), n, seed)
        assert len(full.pair) - len(observed.pair) <= 2


def test_an_action_that_never_did_anything_is_still_tried() -> None:
    """Nothing happened wherever it was tried; in a combination of factors that is new, it may."""
    world = FactoredWorld((4, 4, 4), 1, lambda rng: (0, 0, 0), lambda x, a, rng: (x, -1.0, False))
    observed, full = predicted(world, 40)
    codes = Factors.of_product(world.sizes).codes
    new = full.state[~np.isin(full.pair, observed.pair)]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        seen = set(map(tuple, codes[observed.state][:, [i, j]].tolist()))
        assert all(tuple(pair) in seen for pair in codes[new][:, [i, j]].tolist())
    assert (full.n_visits[~np.isin(full.pair, observed.pair)] < 0.1).all()


def test_a_contradiction_withdraws_predictions() -> None:
    world = WORLDS["keys and doors"]()
    seen, factors = tried(world, 400)
    complete = Completion(Fixed(factors))
    before = complete(seen.table())
    untried = ~np.isin(before.pair, seen.table().pair)
    action = int(np.bincount(before.action[untried]).argmax())
    new = np.flatnonzero(untried & (before.action == action))
    state = before.state[new]
    for one in state[:12]:
        seen.add(Transition(int(one), action, 3.0, 0))
    after = complete(seen.table())
    assert len(new) > 20
    assert (~np.isin(after.pair, seen.table().pair) & (after.action == action)).sum() < len(new) / 2


def test_features_are_the_parts_of_a_space() -> None:
    """A function of bare numbers, a table of rows, and a combined space: the same life."""
    world = WORLDS["rooms"]()
    agent, lives = Agent.from_pretrained(), []
    rows = Factors.of_product(world.sizes).codes
    for numbers, features in ((False, None), (True, lambda s: rows[s]), (True, rows), (True, dict(enumerate(rows)))):
        result = agent.solve(FactoredEnv(world, numbers=numbers), 5, seed=1, features=features)
        lives.append(list(result.returns))
    assert lives[1:] == lives[:1] * 3


def test_a_saved_agent_goes_on_with_features_of_a_function(tmp_path: Path) -> None:
    world = WORLDS["rooms"]()
    agent = Agent.from_pretrained()
    env = FactoredEnv(world, numbers=True)
    agent.solve(env, 5, seed=0, features=lambda s: np.unravel_index(s, world.sizes))
    agent.save(tmp_path / "agent")
    other = Agent.load(tmp_path / "agent")
    lives = [list(one.solve(env, 4, seed=2, resume=True).returns) for one in (agent, other)]
    assert lives[0] == lives[1]
    assert agent.predict(5) == other.predict(5)


def test_names_get_their_features_as_they_appear() -> None:
    features = StateFactors(codec_of(None, "observation", 10), lambda name: (name[0], int(name[1])))
    for name in ("a1", "b3", "a3"):
        features.states.encode(name)
    assert features(4).codes.tolist() == [[0, 0], [1, 2], [0, 2], [-1, -1]]


def test_states_that_look_the_same_are_not_predicted() -> None:
    features = StateFactors(DiscreteCodec(4, 0, "observation"), [(0, 0), (0, 1), (0, 1), (1, 1)])
    assert features(4).known.tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    "features", [lambda s: 1 / 0, lambda s: s, [(0, 1), (2,)], lambda s: ([], s), lambda s: (float("nan"), s)]
)
def test_wrong_features_are_refused_and_nothing_is_forgotten(features: Any) -> None:
    agent = Agent.from_pretrained().reset(3, 2)
    agent.observe(0, 1, 1.0, 2, terminated=False)
    with pytest.raises(MdpfnError, match="features"):
        agent.reset(3, 2, features=features)
    assert agent.num_timesteps == 1


@pytest.mark.filterwarnings("ignore::mdpfn.coverage.CoverageWarning")
def test_tables_of_features_have_a_row_for_each_state() -> None:
    short = [(0, 1), (0, 2)]
    log = ([0, 1, 2], [0, 1, 0], [0.0, 1.0, 2.0], [1, 2, 0])
    agent = Agent.from_pretrained()
    for learn in (
        lambda rows: agent.reset(3, 2, features=rows),
        lambda rows: agent.fit(log, features=rows),
        lambda rows: agent.partial_fit(log, features=rows),
    ):
        with pytest.raises(MdpfnError, match="features is of 2 rows, but there are 3 states: give a row for each"):
            learn(short)
        learn([*short, (1, 1)])


def test_features_are_for_states_that_can_be_counted() -> None:
    with pytest.raises(MdpfnError, match="features"):
        Agent.from_pretrained().reset(gym.spaces.Box(0, 1, (2,)), 2, features=lambda s: s)


def test_factors_solve_sooner() -> None:
    """Lights out: what a switch does is the same in all of the 128 states."""
    agent = Agent.from_pretrained()
    world = WORLDS["lights out"]()
    earned = [agent.solve(FactoredEnv(world, numbers=numbers), 10, seed=0).returns.sum() for numbers in (False, True)]
    assert earned[0] > earned[1] + 100


def test_what_rules_tell_is_exploited() -> None:
    """The policy is as good as the episodes that explored by the same table, also in states that were never seen."""
    result = Agent.from_pretrained().solve(FactoredEnv(machines(3)), 20, seed=0, evaluate=10)
    assert result.evaluation.mean() > 0.97 * result.returns[-6:-1].mean()
