"""Environments: every one is sound and solvable, and those with known answers have them."""

from __future__ import annotations

from functools import cache

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from mdpfn.bench.environments import ENVIRONMENTS, Simulator, TabularEnv, from_gymnasium_table
from mdpfn.bench.environments.asset_selling import SELL, asset_selling
from mdpfn.bench.environments.bandit import bandit
from mdpfn.bench.environments.car_rental import one_day
from mdpfn.bench.environments.chain import FORWARD, chain, loop
from mdpfn.bench.environments.combination_lock import combination_lock
from mdpfn.bench.environments.deep_sea import deep_sea
from mdpfn.bench.environments.forest import forest
from mdpfn.bench.environments.frozen_lake import frozen_lake
from mdpfn.bench.environments.gambler import gambler
from mdpfn.bench.environments.garnet import garnet
from mdpfn.bench.environments.gridworld import gridworld
from mdpfn.bench.environments.inventory import inventory
from mdpfn.bench.environments.machine_replacement import machine_replacement
from mdpfn.bench.environments.maze import DYNA_MAZE, FOUR_ROOMS, carved_maze, maze
from mdpfn.bench.environments.outcomes import poisson_probabilities
from mdpfn.bench.environments.queue import ADMIT, REJECT, admission_control, service_control
from mdpfn.bench.environments.river_swim import RIGHT, river_swim
from mdpfn.bench.environments.textbook_grid import russell_norvig_grid, teleport_grid
from mdpfn.bench.environments.toy_text import toy_text
from mdpfn.bench.environments.windy_grid import KING_MOVES, windy_grid
from mdpfn.errors import MdpfnError
from mdpfn.model.exact import Scorer, optimal_q
from mdpfn.model.mdp import TabularMDP

ALMOST_UNDISCOUNTED = 1 - 1e-7


@cache
def built(name: str) -> TabularMDP:
    return ENVIRONMENTS[name].build()


def optimal_value(mdp: TabularMDP) -> np.ndarray:
    return optimal_q(mdp, tolerance=1e-6).max(axis=1)


def steps_to_goal(mdp: TabularMDP) -> float:
    """Length of the optimal path when every step pays −1: V = −(1 − γⁿ) / (1 − γ), solved for n."""
    value = float(mdp.start @ optimal_value(mdp))
    return float(np.log(1 + value * (1 - mdp.discount)) / np.log(mdp.discount))


def is_monotone(actions: np.ndarray) -> bool:
    return bool((np.diff(actions) >= 0).all())


def test_there_are_enough_of_them() -> None:
    assert len(ENVIRONMENTS) >= 30
    assert len({environment.family for environment in ENVIRONMENTS.values()}) >= 12
    assert all(name == environment.name for name, environment in ENVIRONMENTS.items())


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_is_a_sound_mdp(name: str) -> None:
    mdp, environment = built(name), ENVIRONMENTS[name]
    assert mdp.transition.sum(axis=1) == pytest.approx(1)
    assert mdp.transition.data.min() > 0
    assert mdp.start.sum() == pytest.approx(1)
    assert mdp.start[mdp.terminal].sum() == 0
    assert np.isfinite(mdp.outcome_reward).all()
    assert len(mdp.outcome_reward) == mdp.transition.nnz
    assert environment.horizon >= 1
    assert any(character.isdigit() for character in environment.source), "a source has a year or a version"


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_is_worth_solving(name: str) -> None:
    score = Scorer(built(name))
    assert score.optimal_value - score.random_value > 0.1 * max(abs(score.optimal_value), abs(score.random_value))
    assert score(optimal_q(built(name)).argmax(axis=1)) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_is_the_same_each_time(name: str) -> None:
    first, again = built(name), ENVIRONMENTS[name].build()
    assert (first.transition != again.transition).nnz == 0
    np.testing.assert_array_equal(first.outcome_reward, again.outcome_reward)


# The paper's benchmarks


@pytest.mark.parametrize("size", [2, 3, 5])
def test_gridworld_takes_the_shortest_path(size: int) -> None:
    mdp = gridworld(size)
    n_steps = 2 * (size - 1)
    expected = sum(-(mdp.discount**t) for t in range(n_steps)) + 10 * mdp.discount ** (n_steps - 1)
    assert optimal_value(mdp)[0] == pytest.approx(expected)
    assert mdp.terminal.nonzero()[0].tolist() == [size * size - 1]
    assert set(mdp.reward.ravel()) == {-1.0, 9.0, 0.0}


def test_gridworld_moves_up_down_left_right() -> None:
    successors = gridworld(3).dense_transition.argmax(axis=2)
    assert successors[4].tolist() == [1, 7, 3, 5]
    assert successors[0].tolist() == [0, 3, 0, 1]


def test_frozen_lake_is_that_of_the_paper() -> None:
    mdp = frozen_lake()
    assert mdp.terminal.nonzero()[0].tolist() == [5, 7, 11, 12, 15]
    p = mdp.dense_transition
    assert p[6, 1, [10, 5, 7]] == pytest.approx([0.8, 0.1, 0.1])  # down from 6, with holes on both sides
    assert p[0, 0, [0, 1]] == pytest.approx([0.9, 0.1])  # up from the corner: stays, or slips right
    assert mdp.reward[6].tolist() == pytest.approx([-0.2, -0.2, -0.8, -0.8])
    assert mdp.reward[14].tolist() == pytest.approx([0.1, 0.1, 0, 0.8])
    # what is observed depends on state and action only
    assert mdp.outcome_reward == pytest.approx(np.repeat(mdp.reward.ravel(), np.diff(mdp.transition.indptr)))


# Known answers


def test_cliff_walking_takes_13_steps() -> None:
    assert steps_to_goal(toy_text("CliffWalking-v1")) == pytest.approx(13)


@pytest.mark.parametrize(("mdp", "steps"), [(windy_grid(), 15), (windy_grid(KING_MOVES), 7)])
def test_windy_grid_takes_as_many_steps_as_in_the_book(mdp: TabularMDP, steps: int) -> None:
    assert steps_to_goal(mdp) == pytest.approx(steps)


def test_gusts_make_the_windy_grid_harder() -> None:
    assert steps_to_goal(windy_grid(KING_MOVES, gusts=True)) > 7.5


def test_dyna_maze_takes_14_steps() -> None:
    mdp = maze(DYNA_MAZE)
    assert mdp.n_states == 6 * 9 - 7
    assert mdp.start @ optimal_value(mdp) == pytest.approx(0.95**13)


def test_four_rooms_have_104_cells() -> None:
    assert maze(FOUR_ROOMS).n_states == 104


@pytest.mark.parametrize("seed", range(3))
def test_carved_mazes_are_trees(seed: int) -> None:
    mdp = maze(carved_maze(5, seed))
    assert mdp.n_states == 25 + 24  # rooms and the doors of a spanning tree
    assert mdp.start @ optimal_value(mdp) > 0


def test_teleport_grid_has_the_values_of_the_book() -> None:
    printed = [
        [22.0, 24.4, 22.0, 19.4, 17.5],
        [19.8, 22.0, 19.8, 17.8, 16.0],
        [17.8, 19.8, 17.8, 16.0, 14.4],
        [16.0, 17.8, 16.0, 14.4, 13.0],
        [14.4, 16.0, 14.4, 13.0, 11.7],
    ]
    np.testing.assert_allclose(optimal_value(teleport_grid()).reshape(5, 5), printed, atol=0.051)


def test_russell_norvig_grid_has_the_utilities_of_the_book() -> None:
    mdp = russell_norvig_grid(discount=ALMOST_UNDISCOUNTED)
    printed = [0.812, 0.868, 0.918, 0, 0.762, 0.660, 0, 0.705, 0.655, 0.611, 0.388]
    # a looser tolerance suffices: without a discount the bound of value iteration is far too careful
    np.testing.assert_allclose(optimal_q(mdp, tolerance=1.0).max(axis=1), printed, atol=0.0006)


def test_forest_has_the_values_of_mdptoolbox() -> None:
    assert optimal_value(forest(discount=0.9)) == pytest.approx([26.244, 29.484, 33.484], abs=1e-4)


def test_inventory_has_the_rewards_of_puterman() -> None:
    reward = inventory().reward
    printed = {0: [0, -1, -2, -5], 1: [5, 0, -3], 2: [6, -1], 3: [5]}
    for stock, feasible in printed.items():
        assert reward[stock, : len(feasible)] == pytest.approx(feasible)


def test_bold_play_wins_the_gamblers_problem_as_often_as_it_can() -> None:
    value = optimal_q(gambler(8, heads=0.4, discount=ALMOST_UNDISCOUNTED), tolerance=1e-3).max(axis=1)
    assert value[[2, 4, 6]] == pytest.approx([0.4**2, 0.4, 0.4 + 0.6 * 0.4], abs=1e-4)


def test_deep_sea_pays_one_path_only() -> None:
    depth, discount = 6, 0.99
    mdp = deep_sea(depth)
    cost = sum(0.01 / depth * discount**t for t in range(depth))
    assert optimal_value(mdp)[0] == pytest.approx(discount ** (depth - 1) - cost)
    assert (mdp.reward > 0.5).sum() == 1


def test_combination_lock_opens_after_as_many_digits() -> None:
    assert optimal_value(combination_lock(6, 3))[0] == pytest.approx(0.99**5)


def test_loop_prefers_the_harder_loop() -> None:
    discount = 0.95
    assert optimal_value(loop())[0] == pytest.approx(2 * discount**4 / (1 - discount**5))


def test_chain_is_climbed() -> None:
    q = optimal_q(chain())
    assert (q.argmax(axis=1) == FORWARD).all()


@pytest.mark.parametrize(("n_states", "discount"), [(6, 0.95), (12, 0.99)])
def test_river_is_swum_upstream(n_states: int, discount: float) -> None:
    assert (optimal_q(river_swim(n_states, discount=discount)).argmax(axis=1) == RIGHT).all()


def test_asset_is_sold_above_the_reservation_price() -> None:
    discount, cost = 0.95, 0.1
    q = optimal_q(asset_selling())[:-1]
    sells = q.argmax(axis=1) == SELL
    assert is_monotone(sells)
    assert 0 < sells.sum() < len(sells)
    best_offer_or_wait = np.maximum(np.arange(1, 11), q[0, 1])  # waiting is worth the same with any offer
    assert q[:, 1] == pytest.approx(-cost + discount * best_offer_or_wait.mean())


def test_queue_admits_below_a_threshold() -> None:
    with_customer_at_door = optimal_q(admission_control())[11:-1].argmax(axis=1)  # a full queue has no choice
    assert is_monotone(-with_customer_at_door)
    assert {REJECT, ADMIT} == set(with_customer_at_door)


def test_longer_queues_are_served_faster() -> None:
    actions = optimal_q(service_control())[:-1].argmax(axis=1)
    assert is_monotone(actions)
    assert len(set(actions)) > 1


def test_machines_are_replaced_once_worn() -> None:
    actions = optimal_q(machine_replacement(15)).argmax(axis=1)
    assert is_monotone(actions)
    assert actions[0] == 0
    assert actions[-1] > 0


def test_poisson_probabilities_sum_to_one_with_the_tail_at_the_end() -> None:
    p = poisson_probabilities(2.0, 3)
    assert p == pytest.approx([np.exp(-2), 2 * np.exp(-2), 2 * np.exp(-2), 1 - 5 * np.exp(-2)])
    assert poisson_probabilities(2.0, 0) == pytest.approx([1.0])


def test_car_rental_rents_what_is_asked_for_and_there() -> None:
    evening, rented = one_day(request_rate=2.0, return_rate=1.0)
    assert evening.sum(axis=1) == pytest.approx(1)
    requests = np.random.default_rng(0).poisson(2.0, 200_000)
    for morning in range(6):
        assert rented[morning] == pytest.approx(np.minimum(requests, morning).mean(), abs=0.01)


def test_garnet_has_as_many_successors_as_asked_for() -> None:
    mdp = garnet(30, 4, 3)
    assert set(np.diff(mdp.transition.indptr)) == {3}


# Simulation


@pytest.mark.parametrize("name", ["frozen-lake", "river-swim-6", "bandit-5x4", "inventory-3"])
def test_simulator_samples_the_mdp(name: str) -> None:
    mdp, rng = built(name), np.random.default_rng(0)
    simulator = Simulator(mdp, rng)
    n_steps = 20_000
    counts = np.zeros((mdp.n_states, mdp.n_actions, mdp.n_states))
    reward_sum = np.zeros_like(mdp.reward)
    state, terminated = simulator.reset(), False
    for _ in range(n_steps):
        state = simulator.reset() if terminated else state
        action = int(rng.integers(mdp.n_actions))
        reward, next_state, terminated = simulator.step(action)
        counts[state, action, next_state] += 1
        reward_sum[state, action] += reward
        state = next_state
    n = counts.sum(axis=2)
    often = n > 200
    assert often.any()
    p = mdp.dense_transition
    error = np.abs(counts[often] / n[often][:, None] - p[often])
    assert (error <= 5 * np.sqrt(p[often] * (1 - p[often]) / n[often][:, None]) + 1e-9).all()
    second_moment = np.einsum("san,san->sa", p, outcome_rewards(mdp) ** 2)
    std = np.sqrt(np.maximum(second_moment - mdp.reward**2, 0) + mdp.reward_std**2)
    reward_error = np.abs(reward_sum[often] / n[often] - mdp.reward[often])
    assert (reward_error <= 5 * std[often] / np.sqrt(n[often]) + 1e-9).all()


def outcome_rewards(mdp: TabularMDP) -> np.ndarray:
    dense = mdp.transition.copy()
    dense.data = mdp.outcome_reward
    return dense.toarray().reshape(mdp.n_states, mdp.n_actions, mdp.n_states)


def test_simulator_starts_where_the_mdp_does() -> None:
    mdp = built("river-swim-6")
    simulator = Simulator(mdp, np.random.default_rng(0))
    starts = np.bincount([simulator.reset() for _ in range(2000)], minlength=6) / 2000
    assert starts == pytest.approx(mdp.start, abs=0.06)


def test_simulator_stays_in_terminal_states_for_nothing() -> None:
    simulator = Simulator(gridworld(2), np.random.default_rng(0))
    simulator.reset()
    simulator.step(1)
    assert simulator.step(3) == (9.0, 3, True)
    assert simulator.step(0) == (0.0, 3, True)


def test_bandit_rewards_are_noisy() -> None:
    mdp = bandit(1, 3)
    simulator = Simulator(mdp, np.random.default_rng(0))
    simulator.reset()
    rewards = np.array([simulator.step(1)[0] for _ in range(4000)])
    assert rewards.mean() == pytest.approx(mdp.reward[0, 1], abs=0.08)
    assert rewards.std() == pytest.approx(1, abs=0.06)


# Gymnasium


@pytest.mark.parametrize(("name", "options"), [("mdpfn/GridWorld-v0", {"size": 4}), ("mdpfn/FrozenLake-v0", {})])
def test_registered_environments_pass_gymnasiums_own_check(name: str, options: dict[str, int]) -> None:
    env = gymnasium.make(name, **options)
    check_env(env.unwrapped)  # its warnings are errors here


def test_registered_gridworld_has_the_size_asked_for() -> None:
    env = gymnasium.make("mdpfn/GridWorld-v0", size=3)
    assert (env.observation_space.n, env.action_space.n) == (9, 4)
    state, _ = env.reset(seed=0)
    assert state == 0
    rewards = [env.step(action)[1:3] for action in (1, 1, 3, 3)]
    assert rewards == [(-1.0, False), (-1.0, False), (-1.0, False), (9.0, True)]


def test_gymnasium_episodes_repeat_with_their_seed() -> None:
    env = TabularEnv(frozen_lake())

    def episode(seed: int) -> list[int]:
        env.reset(seed=seed)
        return [int(env.step(np.int64(1))[0]) for _ in range(20)]

    assert episode(3) == episode(3)
    assert len({tuple(episode(seed)) for seed in range(20)}) > 1


@pytest.mark.parametrize(
    ("gymnasium_id", "options"),
    [
        ("FrozenLake-v1", {"is_slippery": True}),
        ("FrozenLake-v1", {"map_name": "8x8", "is_slippery": False}),
        ("CliffWalking-v1", {}),
        ("Taxi-v4", {}),
    ],
)
def test_tables_agree_with_gymnasiums_own_steps(gymnasium_id: str, options: dict[str, object]) -> None:
    mdp = toy_text(gymnasium_id, **options)
    rewards = outcome_rewards(mdp)
    p = mdp.dense_transition
    env = gymnasium.make(gymnasium_id, **options)
    rng = np.random.default_rng(0)
    counts = np.zeros_like(p)
    done = True
    for step in range(4000):
        if done:
            state, _ = env.reset(seed=step)
            assert mdp.start[state] > 0
        action = int(rng.integers(mdp.n_actions))
        next_state, reward, terminated, truncated, _ = env.step(action)
        assert p[state, action, next_state] > 0
        assert rewards[state, action, next_state] == pytest.approx(reward)
        assert mdp.terminal[next_state] == terminated
        counts[state, action, next_state] += 1
        state, done = next_state, terminated or truncated
    if "is_slippery" in options:
        n = counts.sum(axis=2)
        often = n > 50
        assert often.any()
        error = np.abs(counts[often] / n[often][:, None] - p[often])
        assert (error <= 5 * np.sqrt(p[often] * (1 - p[often]) / n[often][:, None]) + 1e-9).all()


def test_an_environment_without_a_table_is_refused() -> None:
    with pytest.raises(MdpfnError, match="table P"):
        from_gymnasium_table(TabularEnv(gridworld(2)))


def test_a_state_that_only_sometimes_ends_episodes_is_refused() -> None:
    env = TabularEnv(gridworld(2))
    env.P = {0: {0: [(1.0, 1, 0.0, True)], 1: [(1.0, 1, 0.0, False)]}, 1: {0: [(1.0, 0, 0.0, False)], 1: []}}
    with pytest.raises(MdpfnError, match="state 1"):
        from_gymnasium_table(env)


@pytest.mark.parametrize("action", [-1, 4, 1000, 0.5])
def test_actions_outside_the_space_are_refused(action):
    env = TabularEnv(gridworld(3))
    env.reset(seed=0)
    with pytest.raises(MdpfnError, match="the actions are 0 to 3"):
        env.step(action)
