"""Terminal states as a network without an input for them sees them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mdpfn.baselines import UCBVI, CertaintyEquivalence
from mdpfn.evidence import PairTable, Statistics, Transition
from mdpfn.evidence.absorbing import with_absorbing
from mdpfn.network.config import NetworkConfig
from mdpfn.network.network import PolicyNetwork
from mdpfn.planners.problem_info import ProblemInfo
from tests.interface import planner_outputs


def rows(z: PairTable, mdp: int = 0) -> dict[tuple[int, int], tuple[float, float, dict[int, float]]]:
    """(state, action) -> visits, reward sum, counts by successor."""
    found = {}
    for i in np.flatnonzero(z.pair_mdp == mdp):
        mine = z.transition_row == i
        pair = divmod(int(z.pair[i]), int(z.n_actions[mdp]))
        counts = dict(zip(z.successor[mine].tolist(), z.transition_count[mine].tolist(), strict=True))
        found[pair] = (float(z.n_visits[i]), float(z.reward_sum[i]), counts)
    return found


def test_a_terminal_state_loops_for_nothing_as_often_as_it_was_reached() -> None:
    history = Statistics(3, 2)
    history.add(Transition(0, 1, 1.0, 2, terminated=True))
    history.add(Transition(0, 1, 1.0, 2, terminated=True))
    history.add(Transition(0, 1, 0.0, 1))
    history.add(Transition(1, 0, 0.0, 0))
    z = with_absorbing(history.table())
    assert rows(z) == {
        (0, 1): (3, 2, {2: 2, 1: 1}),
        (1, 0): (1, 0, {0: 1}),
        (2, 0): (2, 0, {2: 2}),
        (2, 1): (2, 0, {2: 2}),
    }
    assert z.n_states.tolist() == [3]
    assert np.all(np.diff(z.pair) > 0)


def test_truncation_adds_nothing() -> None:
    history = Statistics(3, 2)
    history.add(Transition(0, 1, 1.0, 2))  # truncated: an episode that ended here says nothing about the state
    assert with_absorbing(history.table()) is history.table()


def test_a_state_that_episodes_also_went_on_from_is_not_absorbing() -> None:
    history = Statistics(2, 2)
    history.add(Transition(0, 0, 0.0, 0))
    history.add(Transition(0, 1, 1.0, 0, terminated=True))
    history.add(Transition(0, 1, -1.0, 0, terminated=True))
    history.add(Transition(0, 1, -1.0, 1, terminated=True))
    z = with_absorbing(history.table())
    assert z.n_states.tolist() == [3]
    assert rows(z) == {
        (0, 0): (1, 0, {0: 1}),
        (0, 1): (3, -1, {1: 1, 2: 2}),
        (1, 0): (1, 0, {1: 1}),
        (1, 1): (1, 0, {1: 1}),
        (2, 0): (2, 0, {2: 2}),
        (2, 1): (2, 0, {2: 2}),
    }


def test_mdps_of_a_batch_stay_apart() -> None:
    ends, goes_on, both = Statistics(2, 1), Statistics(2, 3), Statistics(1, 2)
    ends.add(Transition(0, 0, 1.0, 1, terminated=True))
    goes_on.add(Transition(1, 2, 1.0, 0))
    both.add(Transition(0, 0, 1.0, 0, terminated=True))
    parts = [goes_on, ends, both, goes_on]
    z = with_absorbing(PairTable.concatenate([part.table() for part in parts]))
    for i, part in enumerate(parts):
        assert rows(z, i) == rows(with_absorbing(part.table()))


def test_plans_have_a_row_for_every_state_of_the_mdp_and_no_other() -> None:
    network = PolicyNetwork(NetworkConfig(width=8, n_heads=2, depth=2)).eval().double()
    both, ends = Statistics(3, 2), Statistics(2, 3)
    both.add(Transition(0, 0, 1.0, 0, terminated=True))
    ends.add(Transition(0, 0, 1.0, 1, terminated=True))
    together = planner_outputs(network, PairTable.concatenate([both.table(), ends.table()]))
    assert [found.policy_logits.shape for found in together] == [(3, 2), (2, 3)]
    for found, part in zip(together, (both, ends), strict=True):
        alone = planner_outputs(network, part.table())[0]
        np.testing.assert_allclose(found.policy_logits, alone.policy_logits, atol=1e-9)


def test_sums_of_squares_and_durations_stay_with_their_pairs() -> None:
    history = Statistics(3, 2)
    for reward, ends in ((2.0, True), (-1.0, False)):
        history.add(Transition(1, 0, reward, 0, terminated=ends))
    z = with_absorbing(replace(history.table(), duration=np.array([2.5])))
    assert z.pair.tolist() == [0, 1, 2]
    assert z.reward_square_sum.tolist() == [0, 0, 5]
    assert z.duration.tolist() == [1, 1, 2.5]


def test_model_based_learners_end_where_transitions_ended() -> None:
    """Ending pays 1 at once; going on leads back to the same state, from which one can still end."""
    history = Statistics(1, 2)
    history.add(Transition(0, 0, 1.0, 0, terminated=True))
    history.add(Transition(0, 1, 0.0, 0))
    info, rng = ProblemInfo.of(0.9), np.random.default_rng(0)
    for learner in (UCBVI(history, info, rng), CertaintyEquivalence(history, info, rng)):
        np.testing.assert_allclose(learner.empirical_q(), [[1.0, 0.9]], atol=1e-4)
