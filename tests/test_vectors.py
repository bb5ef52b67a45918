"""Smoothed evidence: what it learns of worlds that are known, and the table that it gives."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from mdpfn import Evidence, MdpfnError, Transition
from mdpfn.evidence.smoothed import SmoothedEvidence, SmootherConfig
from mdpfn.evidence.smoothed.memory import Batch, Memory
from mdpfn.evidence.smoothed.nodes import most_nodes
from mdpfn.evidence.smoothed.walls import walls
from mdpfn.planners.node_values import NodeModel

CODES = np.eye(2)
MOTION = np.array([[1.0, 0.1], [-0.05, 0.98]])
FORCE = np.array([[0.0, -0.05], [0.0, 0.05]])
UNBOUNDED = np.full(2, -np.inf), np.full(2, np.inf)


def linear_world(n: int, *, walls: float = np.inf, seed: int = 0) -> Batch:
    """Transitions of y = A x + b_a with reward −|x|², which ends beyond the walls |x₀| > `walls`."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2))
    action = rng.integers(2, size=n)
    y = x @ MOTION.T + FORCE[action]
    ended = np.abs(y[:, 0]) > walls
    return Batch(x, action, CODES[action], np.where(ended, -5.0, -(x**2).sum(1)), y, ended)


def linear_evidence(n: int = 300, **options: float) -> SmoothedEvidence:
    evidence = SmoothedEvidence(2, CODES)
    evidence.extend(linear_world(n, **options))
    for start in np.random.default_rng(1).uniform(-0.2, 0.2, (5, 2)):
        evidence.add_start(start)
    return evidence


def test_the_smoother_recovers_a_linear_system_and_extrapolates():
    evidence = linear_evidence(60)
    evidence.table()
    x = np.random.default_rng(2).uniform(-1.1, 1.1, (50, 2))
    for action in range(2):
        step = evidence.model.step(x, np.full(50, action))
        expected = x @ MOTION.T + FORCE[action]
        inside = (np.abs(expected) < 1).all(1)
        assert_allclose(step.y[inside], expected[inside], atol=0.01)
        assert_allclose(step.reward[inside], -(x[inside] ** 2).sum(1), atol=0.15)


def test_imagined_states_and_rewards_stay_within_what_was_seen():
    """Otherwise values that no reward bears out attract the agent: Pendulum span for ever at its top speed."""
    evidence = linear_evidence(60)
    evidence.table()
    data, x = evidence.memory.batch(), np.random.default_rng(2).uniform(-9, 9, (200, 2))
    step = evidence.model.step(x, np.zeros(200, int))
    assert data.reward.min() <= step.reward.min() <= step.reward.max() <= data.reward.max()
    seen = np.concatenate([data.x, data.y])
    beyond = SmootherConfig().pad * np.ptp(seen, axis=0)
    assert (step.y >= seen.min(0) - beyond).all()
    assert (step.y <= seen.max(0) + beyond).all()
    assert (step.y > seen.max(0)).any()  # though not to the last bit: half of a pendulum's speeds is soon seen


def against_a_wall(n: int = 300, wall: float = 0.7) -> Batch:
    """The linear world, but x₀ cannot exceed a wall."""
    rows = linear_world(n)
    return rows._replace(y=np.minimum(rows.y, [wall, np.inf]), x=np.minimum(rows.x, [wall, np.inf]))


def test_a_wall_is_told_by_what_comes_to_the_same_last_bit():
    data, config = against_a_wall(wall=0.9), SmootherConfig()
    low, high, hit = walls(data, UNBOUNDED, config)
    assert high[0] == 0.9
    assert_array_equal(hit, data.y[:, 0] == 0.9)
    assert (low < data.y.min(0)).all()
    assert high[1] > data.y[:, 1].max()
    free = linear_world(300)
    assert not walls(free, UNBOUNDED, config)[2].any()


def test_bounds_hold_unless_they_lie():
    rows, config = linear_world(300), SmootherConfig()
    low, high, _ = walls(rows, (np.array([-1.2, 0.5]), np.array([1.2, 0.5])), config)
    assert (low[0], high[0]) == (-1.2, 1.2)
    assert low[1] < rows.y[:, 1].min()
    assert high[1] > rows.y[:, 1].max()


def test_limits_of_flags_and_of_numbers_that_are_often_at_them_are_no_exceptions():
    config, rows = SmootherConfig(), linear_world(300)
    flag = rows._replace(y=np.column_stack([rows.y[:, 0], rows.y[:, 1] > 0.95]))
    assert not walls(flag, UNBOUNDED, config)[2].any()
    often = against_a_wall(wall=0.3)
    assert not walls(often, UNBOUNDED, config)[2].any()
    assert walls(often, UNBOUNDED, config)[1][0] == 0.3


def test_what_hits_a_wall_does_not_bend_the_world():
    evidence = SmoothedEvidence(2, CODES)
    evidence.extend(against_a_wall(wall=0.9))
    evidence.table()
    x = np.array([[0.85, y] for y in np.linspace(-1, 1, 21)])
    step = evidence.model.step(x, np.ones(21, int))
    expected = np.minimum(x @ MOTION.T + FORCE[1], [0.9, np.inf])
    assert_allclose(step.y, expected, atol=0.005)


def test_the_reward_may_bend_where_motion_does_not():
    """Length-scales of a jagged reward would have the process forget beyond its data how states move."""
    rows = linear_world(250)
    evidence = SmoothedEvidence(2, CODES)
    evidence.extend(rows._replace(reward=np.sin(8 * rows.x[:, 0])))
    evidence.table()
    x = np.random.default_rng(2).uniform(1.1, 1.4, (50, 2))
    step = evidence.model.step(x, np.ones(50, int))
    assert_allclose(step.y, x @ MOTION.T + FORCE[1], atol=0.01)
    inside = np.random.default_rng(3).uniform(-0.8, 0.8, (50, 2))
    assert_allclose(evidence.model.step(inside, np.ones(50, int)).reward, np.sin(8 * inside[:, 0]), atol=0.2)


def test_a_roll_is_many_steps():
    evidence = linear_evidence(200, walls=0.9)
    evidence.table()
    model, x, action = evidence.model, np.array([[0.2, 0.1], [0.8, 0.9]]), np.array([1, 0])
    rolled = model.roll(x, action, (1, 2, 4))
    total, alive, y = np.zeros(2), np.ones(2), x
    for t in range(4):
        y, reward, survival = model.step(y, action)
        total += 0.99**t * alive * reward
        alive = alive * survival
    assert_allclose(rolled.end[-1], y)
    assert_allclose(rolled.reward[-1], total)
    assert_allclose(rolled.discount[-1], 0.99**4 * alive)


def test_the_box_in_which_episodes_go_on_is_learned_with_the_reward_of_leaving_it():
    evidence = linear_evidence(600, walls=0.8)
    evidence.table()
    termination = evidence.model.termination
    x0 = np.linspace(-1, 1, 41)
    y = np.stack([x0, np.zeros(41)], 1)
    probability = termination.probability(y)
    assert (probability[np.abs(x0) < 0.7] < 0.1).all()
    assert (probability[np.abs(x0) > 0.9] > 0.9).all()
    assert_allclose(termination.reward(y, probability)[probability > 0.5], -5)
    assert linear_evidence().table() is not None  # and without ends there is none
    free = linear_evidence()
    free.table()
    assert free.model.termination is None


def test_weights_locate_any_state_among_nodes():
    evidence = linear_evidence()
    x = np.random.default_rng(3).uniform(-0.8, 0.8, (100, 2))
    nodes, weights = evidence.locate(x)
    assert (weights >= 0).all()
    assert_allclose(weights.sum(1), 1)
    states = evidence.nodes.states
    error = np.abs(np.einsum("nk,nkd->nd", weights, states[nodes]) - x).max(1)
    assert error.mean() < 0.001
    assert error.max() < 2 * evidence.nodes.spacing  # where the nearest nodes all lie to one side
    linear = states @ [2.0, -1.0] + 3
    tangent, unknown = evidence.nodes.interpolate(x, linear, evidence.nodes.slopes(linear))
    assert_allclose(tangent, x @ [2.0, -1.0] + 3, atol=0.05)
    assert ((unknown >= 0) & (unknown <= 1)).all()


def value_iteration(evidence: SmoothedEvidence, reward, discount) -> np.ndarray:
    """The oracle: V = max_o r_o + γ_o Σ w V, with ends taken out of the discount."""
    z = evidence.table()
    going = sp.csr_array((z.successor_probs, z.successor, np.append(0, z.n_successors.cumsum())))
    first = np.searchsorted(z.state, np.arange(int(z.n_states[0])))
    v = np.zeros(int(z.n_states[0]))
    for _ in range(3000):
        v = np.maximum.reduceat(reward + discount * (going @ v), first)
    return v


@pytest.mark.parametrize("walls", [np.inf, 0.8])
def test_sweeps_of_the_empirical_model_are_value_iteration_on_the_table(walls):
    evidence = linear_evidence(walls=walls)
    z, config = evidence.table(), SmootherConfig(sweeps=3000, tolerance=1e-10)
    model = NodeModel.of(z, evidence.nodes.unknown, config)
    survival = 1 - np.bincount(z.transition_row, z.n_terminated) / z.n_visits
    discount = 0.99**z.duration * survival
    mean_unknown = np.bincount(z.transition_row, z.successor_probs * evidence.nodes.unknown[z.successor]) * survival
    floor, fear = -500.0, config.pessimism * mean_unknown

    feared, hoped = model.feared_and_hoped(floor)
    oracle = value_iteration(evidence, z.mean_reward + fear * discount * floor, discount * (1 - fear))
    assert_allclose(feared, oracle, rtol=1e-6)
    assert_allclose(hoped, value_iteration(evidence, z.mean_reward, discount), rtol=1e-6)
    assert (feared <= hoped + 1e-9).all()
    oracle = value_iteration(evidence, mean_unknown, discount * (1 - mean_unknown))
    assert_allclose(model.curious(), oracle, rtol=1e-6, atol=1e-9)


def test_the_table_is_one_of_options_over_nodes():
    evidence: Evidence = linear_evidence(walls=0.8)
    z = evidence.table()
    assert evidence.n_states == z.n_states[0] == len(evidence.nodes)
    assert evidence.n_actions == 2 * SmootherConfig().n_options
    assert set(z.duration) <= set(SmootherConfig().strides)
    assert (np.diff(z.pair) > 0).all()
    assert (z.transition_count > 0).all()
    assert ((z.n_terminated >= 0) & (z.n_terminated <= z.transition_count)).all()
    assert_allclose(np.bincount(z.transition_row, z.transition_count), z.n_visits)
    assert evidence.table() is z


def test_adding_says_what_is_new():
    evidence = SmoothedEvidence(2, CODES)
    rows = linear_world(30)
    news = [evidence.add(Transition(*row)) for row in zip(rows.x, rows.action, rows.reward, rows.y, strict=True)]
    assert news[0].new_scale
    assert not news[-1].new_scale
    evidence.table()
    assert evidence.growth == 1
    more = linear_world(9, seed=5)
    news = [evidence.add(Transition(*row)) for row in zip(more.x, more.action, more.reward, more.y, strict=True)]
    assert not news[0].new_successor
    assert news[-1].new_successor


def test_memory_is_bounded_and_keeps_ends():
    memory = Memory(2, 2, SmootherConfig())
    rows = linear_world(10_000, walls=0.95)
    for _ in range(10):
        memory.extend(rows)
    assert memory.n_seen == 100_000
    assert len(memory) <= SmootherConfig().capacity
    assert memory.batch().ended.sum() > 100
    for _ in range(1000):
        memory.add_start(np.zeros(2))
    assert len(memory.starts) == SmootherConfig().n_starts


@pytest.mark.parametrize("n", [1, 2, 5, 12])
@pytest.mark.parametrize("constant", [False, True])
def test_a_handful_of_transitions_gives_a_table_too(n, constant):
    evidence = SmoothedEvidence(2, CODES)
    rows = linear_world(n)
    if constant:  # neither state nor reward ever change
        rows = rows._replace(x=np.zeros((n, 2)), y=np.zeros((n, 2)), reward=np.ones(n))
    evidence.extend(rows)
    z = evidence.table()
    assert np.isfinite(z.reward_sum).all()
    feared, hoped = NodeModel.of(z, evidence.nodes.unknown, evidence.config).feared_and_hoped(-10.0)
    assert np.isfinite(feared).all()
    assert np.isfinite(hoped).all()


def test_units_do_not_matter():
    """A dimension in nanometres beside one in light years."""
    plain, scaled = linear_evidence(80), SmoothedEvidence(2, CODES)
    unit, rows = np.array([1e9, 1e-16]), linear_world(80)
    scaled.extend(rows._replace(x=rows.x * unit, y=rows.y * unit))
    plain.table()
    scaled.table()
    x, action = np.array([[0.3, -0.2]]), np.array([1])
    assert_allclose(scaled.model.step(x * unit, action).y / unit, plain.model.step(x, action).y, atol=1e-3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused_and_nothing_is_lost(bad):
    evidence = linear_evidence(20)
    for transition in (
        Transition(np.array([bad, 0]), 0, 0.0, np.zeros(2)),
        Transition(np.zeros(2), 0, 0.0, np.array([bad, 0])),
        Transition(np.zeros(2), 0, bad, np.zeros(2)),
        Transition(np.zeros(3), 0, 0.0, np.zeros(3)),
    ):
        with pytest.raises(MdpfnError):
            evidence.add(transition)
    assert evidence.n_transitions == 20
    with pytest.raises(MdpfnError, match="nothing to smooth"):
        SmoothedEvidence(2, CODES).table()


def test_there_are_as_many_nodes_as_can_be_rolled_out():
    evidence, least = linear_evidence(), SmootherConfig().n_nodes[0]
    evidence.table()
    rolled = len(CODES) * max(evidence.model.smoother.basis.shape[1], 1)
    for work, expected in ((0.0, least), (3001.0 * rolled, 3001), (np.inf, SmootherConfig().n_nodes[1])):
        assert most_nodes(evidence.model, SmootherConfig(most_work=work)) == expected
    assert len(evidence.nodes) <= most_nodes(evidence.model, evidence.config)
