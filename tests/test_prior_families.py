"""Every family yields valid worlds with something to decide, and no benchmark among them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from mdpfn.bench.environments import ENVIRONMENTS
from mdpfn.cli.main import prior
from mdpfn.errors import MdpfnError
from mdpfn.model.exact import optimal_q, policy_value
from mdpfn.model.mdp import TabularMDP
from mdpfn.prior.graphs import grid, landscape, line, tree
from mdpfn.prior.overlays import renamed, with_trembling_hand
from mdpfn.prior.sizes import log_uniform
from mdpfn.prior.triviality import is_trivial, reachable
from mdpfn.prior.world import FAMILIES, MIXTURE, WorldConfig, sample_world, sample_worlds

LARGEST = WorldConfig().n_states[1]
SIGNIFICANCE = 1e-3


def assert_valid(mdp: TabularMDP) -> None:
    """What `from_sparse`, which checks its input and absorbs terminal states, makes of it is the same MDP."""
    checked = TabularMDP.from_sparse(
        mdp.transition,
        mdp.n_actions,
        outcome_reward=mdp.outcome_reward,
        discount=mdp.discount,
        start=mdp.start,
        terminal=mdp.terminal,
        reward_std=mdp.reward_std,
    )
    assert (mdp.transition.data > 0).all()
    np.testing.assert_allclose(checked.transition.data, mdp.transition.data)
    np.testing.assert_array_equal(checked.transition.indices, mdp.transition.indices)
    np.testing.assert_allclose(checked.reward, mdp.reward, atol=1e-9 * np.abs(mdp.reward).max())
    np.testing.assert_array_equal(checked.outcome_reward, mdp.outcome_reward)
    np.testing.assert_array_equal(checked.reward_std, mdp.reward_std)
    assert not mdp.start[mdp.terminal].any()
    assert not mdp.terminal.all()


@pytest.mark.parametrize("family", FAMILIES)
def test_families_keep_to_the_wished_sizes(family: str) -> None:
    rng = np.random.default_rng(1)
    for _ in range(150):
        n_states, n_actions = round(log_uniform(rng, 2, LARGEST)), round(log_uniform(rng, 2, 10))
        mdp = FAMILIES[family](rng, n_states, n_actions)
        assert 1 <= mdp.n_states <= n_states
        assert 1 <= mdp.n_actions <= n_actions
        assert_valid(mdp)


@pytest.mark.parametrize("family", FAMILIES)
def test_worlds_of_a_family_are_valid_and_differ(family: str) -> None:
    """From 8 states on: two arms, or two states of which one ends it, are the same up to units quite often."""
    worlds = sample_worlds(np.random.default_rng(2), 60, WorldConfig(n_states=(8, LARGEST), families={family: 1.0}))
    for mdp in worlds:
        assert_valid(mdp)
        assert mdp.n_states <= LARGEST
        assert mdp.n_actions <= 10
        assert 0.8 <= mdp.discount <= 0.999
    assert len({fingerprint(mdp) for mdp in worlds}) == len(worlds)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n_states", [2, 3])
def test_smallest_worlds_exist_in_every_family(family: str, n_states: int) -> None:
    config = WorldConfig(n_states=(n_states, n_states), n_actions=(2, 2), families={family: 1.0})
    for mdp in sample_worlds(np.random.default_rng(3), 5, config):
        assert mdp.n_states <= n_states


@pytest.mark.parametrize("family", FAMILIES)
def test_optimal_play_beats_random_play(family: str) -> None:
    config = WorldConfig(n_states=(2, 24), discount=(0.8, 0.95), families={family: 1.0})
    for mdp in sample_worlds(np.random.default_rng(4), 25, config):
        uniform = policy_value(mdp, np.full((mdp.n_states, mdp.n_actions), 1 / mdp.n_actions))
        gain = optimal_q(mdp).max(axis=1) - uniform
        assert mdp.start @ gain > 0


def test_the_mixture_holds_every_family_and_about_half_of_the_worlds_end() -> None:
    assert sum(MIXTURE.values()) == pytest.approx(1.0)
    worlds = sample_worlds(np.random.default_rng(5), 600)
    assert 0.4 < np.mean([mdp.terminal.any() for mdp in worlds]) < 0.6
    assert 0.1 < np.mean([(mdp.reward_std > 0).any() for mdp in worlds]) < 0.4
    single = np.mean([np.count_nonzero(mdp.start) == 1 for mdp in worlds])
    assert 0.5 < single < 0.95


def test_sizes_and_horizons_follow_the_configuration() -> None:
    rng = np.random.default_rng(6)
    config = WorldConfig(n_states=(4, 200), families={"paper": 1.0})
    worlds = [sample_world(rng, config) for _ in range(300)]
    horizon = np.log([1 / (1 - mdp.discount) for mdp in worlds])
    everywhere, usual = stats.uniform(np.log(5), np.log(200)), stats.uniform(np.log(10), np.log(10))
    assert stats.kstest(horizon, lambda x: (everywhere.cdf(x) + usual.cdf(x)) / 2).pvalue > SIGNIFICANCE
    narrow = WorldConfig(discount=(0.99, 0.999), families={"paper": 1.0})  # does not hold all of the usual horizons
    horizon = np.log([1 / (1 - sample_world(rng, narrow).discount) for _ in range(300)])
    assert stats.kstest(horizon, stats.uniform(np.log(100), np.log(10)).cdf).pvalue > SIGNIFICANCE
    size = np.log([mdp.n_states for mdp in worlds]) + rng.uniform(-0.02, 0.02, 300)
    assert stats.kstest(size, stats.uniform(np.log(4), np.log(50)).cdf).pvalue > SIGNIFICANCE
    n_actions = np.array([mdp.n_actions for mdp in worlds])
    assert set(n_actions) == set(range(2, 11))
    assert (n_actions <= 4).mean() > 0.4


def test_the_same_seed_gives_the_same_worlds() -> None:
    first, second = (sample_worlds(np.random.default_rng(7), 80) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        for name in ("reward", "start", "terminal", "outcome_reward", "reward_std"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        np.testing.assert_array_equal(a.transition.toarray(), b.transition.toarray())


@pytest.mark.parametrize("family", ["chain", "maze", "inventory", "errand"])
def test_ids_carry_no_information(family: str) -> None:
    """Where one starts, where it ends and which action is best are spread evenly over the ids."""
    config = WorldConfig(n_states=(8, 8), n_actions=(4, 4), discount=(0.8, 0.9), families={family: 1.0})
    place, choice = [], []
    for mdp in sample_worlds(np.random.default_rng(8), 250, config):
        start = int(mdp.start.argmax())
        if np.count_nonzero(mdp.start) == 1:
            place.append(start / mdp.n_states)
        q = optimal_q(mdp)[start]
        if mdp.n_actions == 4 and np.sort(q)[-1] > np.sort(q)[-2] + 1e-9:
            choice.append(int(q.argmax()))
    assert stats.chisquare(np.histogram(place, bins=2, range=(0, 1))[0]).pvalue > SIGNIFICANCE
    assert stats.chisquare(np.bincount(choice, minlength=4)).pvalue > SIGNIFICANCE


def test_renaming_keeps_the_values() -> None:
    rng = np.random.default_rng(9)
    for mdp in sample_worlds(rng, 30, WorldConfig(n_states=(2, 20), discount=(0.8, 0.9))):
        order = rng.permutation(mdp.n_states)
        actions = rng.permutation(mdp.n_actions)
        other = renamed(mdp, order, np.broadcast_to(actions, (mdp.n_states, mdp.n_actions)))
        assert_valid(other)
        np.testing.assert_allclose(optimal_q(other), optimal_q(mdp)[order][:, actions], rtol=1e-6, atol=1e-9)


def test_waiting_stays_and_never_pays() -> None:
    rng = np.random.default_rng(9)
    for mdp in sample_worlds(rng, 30, WorldConfig(n_states=(2, 20))):
        waiting = np.full((mdp.n_states, 1), mdp.n_actions)
        other = renamed(mdp, np.arange(mdp.n_states), waiting)
        assert_valid(other)
        np.testing.assert_array_equal(other.transition.toarray(), np.eye(mdp.n_states))
        assert (other.reward <= 0).all()


def test_a_trembling_hand_slips_to_other_actions_in_puzzles_only() -> None:
    puzzle = TabularMDP.from_dense(np.eye(3)[[[1, 0], [2, 0], [2, 2]]], [[0, 0], [1, 0], [0, 0]], terminal=[2])
    trembling = with_trembling_hand(np.random.default_rng(0), puzzle)
    assert_valid(trembling)
    slip = trembling.dense_transition[0, 0, 0]
    assert 0 < slip < 0.1
    np.testing.assert_allclose(trembling.reward[1], [1 - slip, slip])
    priced = TabularMDP.from_dense(puzzle.dense_transition, [[0.3, 0], [1, 0], [0, 0]], terminal=[2])
    assert with_trembling_hand(np.random.default_rng(0), priced) is priced


def test_triviality_is_what_it_says() -> None:
    """One action that pays counts only where it can be reached, and differences count only if some path shows them."""
    stay = np.tile(np.eye(3)[:, None, :], (1, 2, 1))
    reward = np.zeros((3, 2))
    assert is_trivial(TabularMDP.from_dense(stay, reward + 1.0))
    reward[2, 1] = 1.0
    assert is_trivial(TabularMDP.from_dense(stay, reward, start=0))
    assert not is_trivial(TabularMDP.from_dense(stay, reward, start=2))
    on = stay.copy()
    on[:2, 1] = np.eye(3)[1:]
    assert not is_trivial(TabularMDP.from_dense(on, reward, start=0))
    np.testing.assert_array_equal(reachable(np.eye(5, k=1, dtype=bool), np.arange(5) == 1), [0, 1, 1, 1, 1])


@pytest.mark.parametrize("graph", [grid, landscape, line, tree])
def test_graphs_keep_their_size_and_hang_together(graph) -> None:
    rng = np.random.default_rng(10)
    for _ in range(100):
        n_states, n_directions = int(rng.integers(4, 65)), int(rng.integers(3, 11))
        moves = graph(rng, n_states, n_directions)
        assert 2 <= len(moves) <= n_states
        assert 2 <= moves.shape[1] <= n_directions
        edge = np.zeros((len(moves), len(moves)), dtype=bool)
        edge[np.arange(len(moves))[:, None], moves] = True
        if graph is not landscape:  # where the nearest place in a direction need not lead back
            assert reachable(edge, np.arange(len(moves)) == 0).all()


@pytest.mark.parametrize("family", ["errand", "bandit"])
def test_every_family_can_be_looked_at(family: str, tmp_path: Path) -> None:
    prior(show=3, family=family, out=tmp_path / "sheet.png")
    assert (tmp_path / "sheet.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(MdpfnError, match="labyrinth"):
        prior(family="labyrinth", out=tmp_path / "sheet.png")


def test_configurations_survive_json_and_refuse_nonsense() -> None:
    config = WorldConfig(families={"maze": 2.0, "chain": 1.0})
    plain = json.loads(json.dumps(dataclasses.asdict(config)))
    again = WorldConfig(**{k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()})
    assert again == config
    for wrong in ({"families": {"labyrinth": 1.0}}, {"families": {}}, {"families": {"maze": -1.0}},
                  {"families": {"maze": "often"}}, {"discount": (0.9, 1.0)}, {"n_states": (1, 8)}):  # fmt: skip
        with pytest.raises(MdpfnError):
            WorldConfig(**wrong)


def fingerprint(mdp: TabularMDP) -> tuple[object, ...]:
    """What renaming states and actions, rescaling and shifting rewards, another discount or start cannot change.

    Sizes, and of each pair the sorted probabilities with the sorted rewards of their outcomes, standardized.
    """
    reward = mdp.outcome_reward
    alive = np.repeat(np.repeat(~mdp.terminal, mdp.n_actions), np.diff(mdp.transition.indptr))
    low, high = (reward[alive].min(), reward[alive].max()) if alive.any() else (0.0, 0.0)
    standard = np.where(alive, (reward - low) / ((high - low) or 1.0), -1.0)
    spectrum = np.sort(np.round(mdp.transition.data + 1e3 * standard, 6))
    return mdp.n_states, mdp.n_actions, int(mdp.terminal.sum()), spectrum.tobytes()


def test_the_fingerprint_sees_through_renaming_and_units() -> None:
    rng = np.random.default_rng(11)
    for mdp in sample_worlds(rng, 50):
        order = rng.permutation(mdp.n_states)
        actions = np.broadcast_to(rng.permutation(mdp.n_actions), (mdp.n_states, mdp.n_actions))
        other = renamed(mdp, order, actions)
        other = dataclasses.replace(other, outcome_reward=4.0 * other.outcome_reward, discount=0.5)
        assert fingerprint(other) == fingerprint(mdp)


def test_no_benchmark_is_in_the_prior() -> None:
    """None of a few thousand worlds, drawn at the size of a benchmark from every family, is that benchmark."""
    benchmarks = {fingerprint(e.build()): name for name, e in ENVIRONMENTS.items()}
    rng = np.random.default_rng(12)
    sampled = sample_worlds(rng, 1500)
    sizes = {(key[0], key[1]) for key in benchmarks if 2 <= key[0] <= LARGEST}
    for n_states, n_actions in sorted(sizes):
        config = WorldConfig(n_states=(n_states, n_states), n_actions=(max(2, n_actions),) * 2)
        sampled += [sample_world(rng, config) for _ in range(60)]
    found = {benchmarks[key] for key in map(fingerprint, sampled) if key in benchmarks}
    assert not found
