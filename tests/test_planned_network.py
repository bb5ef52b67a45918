"""A network that reads plans equals its slow oracle, begins as a planner, and keeps the symmetries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmarks.naive import naive_outputs, pad_z
from hypothesis import given, settings
from hypothesis import strategies as st

from mdpfn.arrays import Floats
from mdpfn.errors import MdpfnError
from mdpfn.evidence import PairTable, Statistics, Transition
from mdpfn.evidence.absorbing import with_absorbing
from mdpfn.model.empirical import EmpiricalModel
from mdpfn.network.config import NetworkConfig
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.packing import pack
from mdpfn.network.tensors import tensors_of
from mdpfn.planners.classical import CERTAINTY_EQUIVALENT, N_PLANNERS, OPTIMISTIC, PESSIMISTIC, estimate
from mdpfn.planners.problem_info import ProblemInfo
from tests.interface import planner_outputs
from tests.planned import LEVELS, Problem, histories, planned_model, problems, random_network, slow_estimates
from tests.strategies import seeds

TOLERANCE = 1e-9
RENAMED = 1e-3  # names change the order of sums; relative advantages blow rounding up where all actions tie


def batch_of(parts: list[Problem]) -> tuple[PairTable, ProblemInfo]:
    return PairTable.concatenate([z for z, _ in parts]), ProblemInfo.concatenate([info for _, info in parts])


def dense_estimates(batch: PairTable, info: ProblemInfo) -> list[tuple[Floats, Floats]]:
    """Q (S, A, 4) and V (S, 4) of every MDP, spread over all of its states; `test_estimates` checks them."""
    model = EmpiricalModel.of(batch)
    known, layout = model.table, model.layout
    found = estimate(model, info)
    tables = []
    for mdp, (n_states, n_actions) in enumerate(zip(known.n_states, known.n_actions, strict=True)):
        q, value = np.empty((n_states, n_actions, N_PLANNERS)), np.empty((n_states, N_PLANNERS))
        q[:], value[:] = found.unvisited_q[mdp], found.value[layout.n_active + mdp]
        for row in np.flatnonzero(known.pair_mdp == mdp):
            q[divmod(int(known.pair[row]), int(n_actions))] = found.q[row]
        for token in np.flatnonzero(layout.active_mdp == mdp):
            value[layout.active[token]] = found.value[token]
        tables.append((q, value))
    return tables


def outcomes_and_what_was_seen(known: PairTable, visits: Floats) -> tuple[Floats, list[float]]:
    """(S, A, 3) where each pair leads, and averages over the pairs of states that are not terminal."""
    n_states, n_actions = visits.shape
    outcomes = np.zeros((n_states, n_actions, 3))
    ended = {int(s) for s, n in zip(known.successor, known.n_terminated, strict=True) if n > 0}
    rewards = np.zeros((n_states, n_actions))
    edge = 0
    for row, pair in enumerate(known.pair):
        state, action = divmod(int(pair), n_actions)
        rewards[state, action] = known.reward_sum[row] / known.n_visits[row] / known.reward_scale[0]
        mine = range(edge, edge + int(known.n_successors[row]))
        edge = mine.stop
        stays = sum(known.transition_count[i] for i in mine if known.successor[i] == state)
        terminates = sum(known.n_terminated[i] for i in mine)
        outcomes[state, action] = [np.log(len(mine)), *np.array([stays, terminates]) / known.n_visits[row]]
    pairs = [(s, a) for s in range(n_states) for a in range(n_actions) if visits[s, a] and s not in ended]
    again = [pair for pair in pairs if visits[pair] > 1]

    def mean(values: list[float]) -> float:
        return float(np.mean(values)) if values else 0.0

    seen = [
        len(pairs) / visits.size,
        float(np.log1p(sum(visits[pair] for pair in pairs) / visits.size)),
        mean([visits[pair] > 1 for pair in pairs]),
        mean([outcomes[pair][0] == 0 for pair in again]),
        mean([outcomes[pair][0] for pair in again]),
        mean([outcomes[pair][1] for pair in pairs]),
        mean([outcomes[pair][2] for pair in pairs]),
        mean([rewards[pair] != 0 for pair in pairs]),
        min([0.0, *(rewards[pair] for pair in pairs)]),
        max([0.0, *(rewards[pair] for pair in pairs)]),
    ]
    return outcomes, seen


def standard_errors(known: PairTable, visits: Floats, gamma: float, q: Floats, value: Floats) -> Floats:
    """(S, A) of Q of the certain planner, 0 where nothing was tried."""
    tried = [(int(s), int(a)) for s, a in zip(*np.nonzero(visits), strict=True)]
    errors = np.zeros_like(visits)
    edge = 0
    for row, (state, action) in enumerate(tried):
        mine = slice(edge, edge + int(known.n_successors[row]))
        edge = mine.stop
        outcomes, counts = gamma ** known.duration[row] * value[known.successor[mine]], known.transition_count[mine]
        variance = np.average((outcomes - np.average(outcomes, weights=counts)) ** 2, weights=counts)
        unlike = float(np.var([q[pair] for pair in tried]))
        n = visits[state, action]
        errors[state, action] = np.sqrt((variance * n + unlike) / (n * (n + 1)))
    return errors


def dense_features(known: PairTable, info: ProblemInfo, q: Floats, value: Floats) -> tuple[Floats, Floats, Floats]:
    """What a planned network reads of one MDP beside Z, pair by pair, given its Q (S, A, 4) and V (S, 4)."""
    n_states, n_actions, _ = q.shape
    visits = np.zeros((n_states, n_actions))
    visits.reshape(-1)[known.pair] = known.n_visits
    gamma, scale = float(info.discount[0]), float(known.reward_scale[0])
    has_range = bool(np.isfinite(info.reward_high[0]))
    outcomes, seen = outcomes_and_what_was_seen(known, visits)
    about_all = [
        np.log10(1 / (1 - gamma)) - 1,
        float(has_range),
        info.reward_low[0] / scale if has_range else 0.0,
        info.reward_high[0] / scale if has_range else 0.0,
        np.log(n_states) / 4,
        np.log(n_actions) / 2,
        *seen,
    ]
    largest = np.zeros(N_PLANNERS)
    for state, action in zip(*np.nonzero(visits), strict=True):
        largest = np.maximum(largest, value[state] - q[state, action])
    errors = standard_errors(known, visits, gamma, q[..., CERTAINTY_EQUIVALENT], value[:, CERTAINTY_EQUIVALENT])
    of_pair, of_row = np.empty((n_states, n_actions, 28)), np.empty((n_states, n_actions, 15))
    of_state = np.empty((n_states, 10))
    for state in range(n_states):
        untried = visits[state] == 0
        of_state[state] = [*np.arcsinh(value[state]), *(1 - gamma) * value[state], untried.mean(), untried.all()]
        for action in range(n_actions):
            mine = q[state, action]
            read = [*outcomes[state, action], *np.arcsinh(mine), *(1 - gamma) * mine, *about_all]
            of_pair[state, action] = [*read, np.arcsinh(errors[state, action] / 0.05)]
            if untried[action]:
                mine = np.minimum(mine, value[state])
            advantage = np.minimum(mine - value[state], 0)
            relative = np.maximum(advantage / np.maximum(largest, 1e-6), -2)
            about = [*np.arcsinh(mine), *np.arcsinh(advantage / 0.05), *relative, untried[action]]
            typical = np.mean(errors[state][~untried] ** 2) if not untried.all() else 0.0
            deviation = np.sqrt(errors[state, action] ** 2 + typical + 1e-12)
            in_errors = 0.0 if untried[action] else np.arcsinh(advantage[CERTAINTY_EQUIVALENT] / deviation)
            gap = max(float(np.arcsinh(mine[OPTIMISTIC]) - np.arcsinh(mine[PESSIMISTIC])), 0.0)
            of_row[state, action] = [*about, in_errors, gap / (gap + 0.5)]
    return of_pair, of_state, of_row


def oracle(z: PairTable, info: ProblemInfo, estimates: tuple[Floats, Floats], depth: int) -> tuple[Floats, Floats]:
    """Logits (S, A) and quantiles (S, A, levels) of asinh(Q* / reward scale) of one MDP."""
    known = with_absorbing(z)
    n_states, n_actions = int(known.n_states[0]), int(known.n_actions[0])
    padded = pad_z([torch.from_numpy(known.dense_z(0))], [n_actions], n_states + 2, n_actions + 1)
    plans = []
    for part in dense_features(known, info, *estimates):
        filled = torch.zeros(1, n_states + 2, *([n_actions + 1] if part.ndim == 3 else []), part.shape[-1]).double()
        filled[(0, *(slice(n) for n in part.shape))] = torch.from_numpy(part)
        plans.append(filled)
    goes_on = torch.ones(1, n_states + 2, dtype=torch.bool)
    goes_on[0, known.successor[known.n_terminated > 0]] = False
    with torch.no_grad():
        out = naive_outputs(random_network(), *padded, depth, plans=tuple(plans), goes_on=goes_on).numpy()
    out = out[0, : int(z.n_states[0]), :n_actions]
    of_row = plans[2][0, : int(z.n_states[0]), :n_actions].numpy()
    middle, values = LEVELS.index(0.5), out[..., 1:]
    quantiles = np.empty_like(values)
    quantiles[..., middle] = values[..., middle]
    step = np.logaddexp(values, 0)
    for i in range(middle + 1, len(LEVELS)):
        quantiles[..., i] = quantiles[..., i - 1] + step[..., i]
    for i in range(middle - 1, -1, -1):
        quantiles[..., i] = quantiles[..., i + 1] - step[..., i]
    return out[..., 0], of_row[..., :1] + of_row[..., -1:] * quantiles


def asinh_quantiles(quantiles: Floats | None, z: PairTable) -> Floats:
    assert quantiles is not None
    return np.arcsinh(quantiles / z.reward_scale[0])


@settings(max_examples=40, deadline=None)
@given(st.lists(problems(), min_size=1, max_size=3), st.integers(0, 4))
def test_equals_the_naive_network(parts: list[Problem], depth: int) -> None:
    batch, info = batch_of(parts)
    estimates = dense_estimates(batch, info)
    answers = planner_outputs(random_network(), batch, info, depth=depth)
    for (z, its_told), its_estimates, found in zip(parts, estimates, answers, strict=True):
        logits, quantiles = oracle(z, its_told, its_estimates, depth)
        np.testing.assert_allclose(found.policy_logits, logits, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(asinh_quantiles(found.q_quantiles, z), quantiles, rtol=0, atol=TOLERANCE)


def test_every_input_matters() -> None:
    """Equality with the oracle is not vacuous: what is told, each feature and the depth change the answer."""
    z = Statistics.from_transitions(
        [0, 0, 1, 1, 1], [0, 1, 0, 0, 0], [1, -1, 0.5, 0, 0], [1, 2, 0, 2, 2], n_states=4
    ).table()
    network = random_network()
    usual = planner_outputs(network, z, ProblemInfo.of(0.9))[0].policy_logits
    assert np.ptp(usual) > 0.1
    for info, depth in ((ProblemInfo.of(0.8), None), (ProblemInfo.of(0.9, (-1, 1)), None), (ProblemInfo.of(0.9), 5)):
        assert np.abs(planner_outputs(network, z, info, depth=depth)[0].policy_logits - usual).max() > 1e-3
    tokens = tensors_of(pack(EmpiricalModel.of(z), ProblemInfo.of(0.9)), network)
    with torch.no_grad():
        answer = network(tokens)
        for name in ("pair_features", "state_features", "row_features"):
            for column in range(getattr(tokens, name).shape[1]):
                moved = getattr(tokens, name).clone()
                moved[:, column] += 0.1
                other = network(replace(tokens, **{name: moved}))
                assert (other.policy_logits - answer.policy_logits).abs().max() > 1e-6, (name, column)
                assert (other.q_quantiles - answer.q_quantiles).abs().max() > 1e-6, (name, column)


@settings(max_examples=40, deadline=None)
@given(problems())
def test_untrained_it_does_what_the_certain_planner_does(problem: Problem) -> None:
    """The best action among those tried, wherever one was; and its median is the certain planner's value."""
    z, info = problem
    known = with_absorbing(z)
    q, _, _ = slow_estimates(known, info)
    found = planner_outputs(planned_model().network, z, info)[0]
    tried = np.zeros(q.shape[:2], dtype=bool)
    tried.reshape(-1)[known.pair] = True
    for state in np.flatnonzero(tried[: int(z.n_states[0])].any(axis=1)):
        chosen = int(found.policy_logits[state].argmax())
        assert tried[state, chosen]
        best = q[state, tried[state], CERTAINTY_EQUIVALENT].max()
        assert q[state, chosen, CERTAINTY_EQUIVALENT] >= best - 1e-5 * (1 + abs(best))
    for state in np.flatnonzero(~tried[: int(z.n_states[0])].any(axis=1)):
        assert np.ptp(found.policy_logits[state]) == 0
    visited = tried[: int(z.n_states[0])]
    median = asinh_quantiles(found.q_quantiles, z)[..., LEVELS.index(0.5)]
    truth = np.arcsinh(q[: int(z.n_states[0]), :, CERTAINTY_EQUIVALENT])
    np.testing.assert_allclose(median[visited], truth[visited], rtol=0, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(problems())
def test_unknown_are_states_without_a_tried_action_that_are_not_terminal(problem: Problem) -> None:
    z, info = problem
    n_states, n_actions = int(z.n_states[0]), int(z.n_actions[0])
    unknown = np.ones(n_states, dtype=bool)
    unknown[z.pair // n_actions] = False
    unknown[z.successor[z.n_terminated > 0]] = False
    found = planner_outputs(random_network(), z, info)[0]
    assert found.unknown is not None
    assert found.unknown.tolist() == unknown.tolist()


def test_untried_actions_are_told_apart_by_what_they_do_elsewhere() -> None:
    """Action 1 paid in two states, action 2 cost: in a third state, in which only 0 was tried, they do not look alike.

    Nor do they in a state of which nothing is known, and what is said there of action 0 has another reason.
    """
    history = Statistics.from_transitions(
        [0, 0, 0, 1, 1, 1, 2], [0, 1, 2, 0, 1, 2, 0], [0, 1, -1, 0, 1, -1, 0], [1, 2, 1, 0, 2, 1, 0], n_states=4
    )
    known, unknown = planner_outputs(random_network(), history.table(), ProblemInfo.of(0.9))[0].policy_logits[2:]
    assert abs(known[1] - known[2]) > 1e-3
    assert np.abs(np.diff(unknown)).min() > 1e-3
    alike = PolicyNetwork(replace(random_network().config, action_pooling=False)).double().eval()
    alike.load_state_dict(
        {k: v for k, v in random_network().state_dict().items() if not k.startswith("action_pooling.")}
    )
    known, unknown = planner_outputs(alike, history.table(), ProblemInfo.of(0.9))[0].policy_logits[2:]
    assert known[1] == known[2]
    assert np.ptp(unknown) == 0


@settings(max_examples=25, deadline=None)
@given(st.lists(problems(), min_size=2, max_size=4))
def test_independent_of_the_rest_of_the_batch(parts: list[Problem]) -> None:
    together = planner_outputs(random_network(), *batch_of(parts))
    for (z, info), found in zip(parts, together, strict=True):
        alone = planner_outputs(random_network(), z, info)[0]
        np.testing.assert_allclose(found.policy_logits, alone.policy_logits, rtol=0, atol=RENAMED)
        np.testing.assert_array_equal(found.unknown, alone.unknown)
        ours, its = (asinh_quantiles(o.q_quantiles, z) for o in (found, alone))
        np.testing.assert_allclose(ours, its, rtol=0, atol=RENAMED)


@settings(max_examples=25, deadline=None)
@given(histories(), seeds, st.sampled_from([None, (-5.0, 4.0)]))
def test_equivariant_to_names_of_states_and_actions(
    history: Statistics, seed: int, reward_range: tuple[float, float] | None
) -> None:
    rng = np.random.default_rng(seed)
    states, actions = rng.permutation(history.n_states), rng.permutation(history.n_actions)
    z = history.table()
    state, action = np.divmod(z.pair[z.transition_row], z.n_actions[0])
    renamed = Statistics(history.n_states, history.n_actions)
    mean = z.mean_reward[z.transition_row]
    for s, a, t, n, ended, r in zip(state, action, z.successor, z.transition_count, z.n_terminated, mean, strict=True):
        for i in range(int(n)):
            renamed.add(Transition(int(states[s]), int(actions[a]), float(r), int(states[t]), bool(i < ended)))
    other = replace(renamed.table(), reward_scale=z.reward_scale)
    info = ProblemInfo.of(0.9, reward_range)
    here, there = (planner_outputs(random_network(), batch, info)[0] for batch in (z, other))
    where = np.ix_(states, actions)
    np.testing.assert_allclose(there.policy_logits[where], here.policy_logits, rtol=0, atol=RENAMED)
    ours, its = (asinh_quantiles(found.q_quantiles, z) for found in (here, there))
    np.testing.assert_allclose(its[where], ours, rtol=0, atol=RENAMED)


@settings(max_examples=25, deadline=None)
@given(problems(), st.sampled_from([2.0**-10, 8.0, 2.0**20]))
def test_the_unit_of_rewards_does_not_matter(problem: Problem, factor: float) -> None:
    """Powers of 2 change no digits, so nothing else may change; quantiles are in units of reward."""
    z, info = problem
    sums = {"reward_sum": factor * z.reward_sum, "reward_square_sum": factor**2 * z.reward_square_sum}
    scaled = replace(z, reward_scale=factor * z.reward_scale, **sums)
    range_alike = replace(info, reward_low=factor * info.reward_low, reward_high=factor * info.reward_high)
    here, there = (
        planner_outputs(random_network(), z, info)[0],
        planner_outputs(random_network(), scaled, range_alike)[0],
    )
    np.testing.assert_array_equal(there.policy_logits, here.policy_logits)
    np.testing.assert_array_equal(there.q_quantiles, factor * here.q_quantiles)


@settings(max_examples=25, deadline=None)
@given(problems())
def test_quantiles_rise(problem: Problem) -> None:
    for network in (random_network(), planned_model().network):
        quantiles = planner_outputs(network, *problem)[0].q_quantiles
        assert quantiles.shape == (*planner_outputs(network, *problem)[0].policy_logits.shape, len(LEVELS))
        step = np.diff(quantiles, axis=2)
        assert (step >= 0).all()
        z = problem[0]
        terminal = np.zeros(int(z.n_states[0]), dtype=bool)
        terminal[z.successor[z.n_terminated > 0]] = True
        terminal[z.pair // z.n_actions[0]] = False  # others went on from there
        assert (step[~terminal] > 0).all()
        assert (quantiles[terminal] == 0).all()  # nothing follows, and that is known


def test_with_much_data_nothing_is_left_in_doubt() -> None:
    """Whatever a network makes of it, quantiles close in on the value of the empirical model."""
    widths = []
    for n in (1, 100, 10_000, 1_000_000):
        counts = n * np.array([[[1, 2], [3, 0]], [[0, 1], [2, 2]]])
        history = Statistics.from_counts(counts, counts.sum(-1) * np.array([[1.0, 0.2], [0.0, -1.0]]))
        known = history.table()
        estimates = estimate(EmpiricalModel.of(known), ProblemInfo.of(0.9))
        certain = estimates.q_table(CERTAINTY_EQUIVALENT).reshape(2, 2)
        quantiles = planner_outputs(random_network(), known, ProblemInfo.of(0.9))[0].q_quantiles
        assert quantiles is not None
        widths.append(np.abs(quantiles - certain[..., None]).max())
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.02 * widths[0]


def test_tokens_grow_with_observed_transitions_only() -> None:
    shapes = []
    for n_states in (10, 100_000):
        history = Statistics.from_transitions(
            [0, 0, 0, 3], [0, 1, 1, 0], [0.0, 1.0, 1.0, 0.0], [1, 2, 3, 0], [0, 1, 0, 0], n_states=n_states
        )
        tokens = pack(EmpiricalModel.of(history.table()), ProblemInfo.of(0.9, (0, 1)))
        shapes.append([len(getattr(tokens, f)) for f in ("pair_features", "state_features", "row_features")])
    assert shapes[0] == shapes[1]
    assert shapes[0] == [
        6,
        4,
        5 + 4,
    ]  # 3 visited pairs, 2 of the terminal state, an unvisited one; 3 active states, an unvisited one


def test_weights_without_quantiles_have_none() -> None:
    torch.manual_seed(0)
    network = type(random_network())(NetworkConfig(width=8, n_heads=2, depth=1, inputs="planned")).eval()
    found = planner_outputs(network, Statistics(3, 2).table())[0]
    assert found.q_quantiles is None
    assert found.policy_logits.shape == (3, 2)


@pytest.mark.parametrize(
    ("inputs", "quantiles", "message"),
    [
        ("plain", (0.5,), "need planned inputs"),
        ("planned", (0.1, 0.9), "the median"),
        ("planned", (0.5, 0.1), "must rise"),
        ("planned", (0.0, 0.5), "lie in"),
        ("planned", (0.5, 0.5), "must rise"),
        ("guessed", (), "inputs"),
    ],
)
def test_levels_that_make_no_sense_are_refused(inputs: str, quantiles: tuple[float, ...], message: str) -> None:
    with pytest.raises(MdpfnError, match=message):
        NetworkConfig(inputs=inputs, quantiles=quantiles)


def test_steps_beyond_the_depth_of_training_go_less_and_less_far() -> None:
    """Up to it nothing changes; then depths come together, where a plain network goes on drifting."""
    history = Statistics.from_transitions([0, 1, 2, 0], [0, 0, 1, 1], [0.0, 1.0, 0.0, -1.0], [1, 2, 0, 2])
    network = random_network()
    plain = {depth: planner_outputs(network, history.table(), depth=depth)[0].policy_logits for depth in (3, 4)}
    network.config = replace(network.config, trained_depth=3)
    relaxed = {
        depth: planner_outputs(network, history.table(), depth=depth)[0].policy_logits for depth in (3, 4, 400, 401)
    }
    assert (relaxed[3] == plain[3]).all()
    assert np.abs(relaxed[4] - plain[4]).max() > 1e-6
    assert np.abs(relaxed[401] - relaxed[400]).max() < 1e-3


def test_a_depth_of_training_is_a_number_of_steps() -> None:
    with pytest.raises(MdpfnError, match="trained_depth"):
        NetworkConfig(trained_depth=0)
