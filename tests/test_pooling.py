"""What noisy pairs have in common: equal shares are recognised, anything else is left as it was seen."""

from __future__ import annotations

import numpy as np
import pytest

from mdpfn import Agent
from mdpfn.evidence import Statistics
from mdpfn.evidence.pooling import concentration, pooled


def visited(shares: list[float], n_pairs: int = 30, n_visits: int = 20, seed: int = 0) -> Statistics:
    """Pairs whose successors are drawn with these probabilities; the last of them ends the episode half of the time."""
    rng, n_states = np.random.default_rng(seed), n_pairs + 3
    statistics = Statistics(n_states, 1)
    for state in range(n_pairs):
        for which in rng.choice(len(shares), size=n_visits, p=shares):
            ends = which == len(shares) - 1 and rng.random() < 0.5
            statistics.add_transitions([state], [0], [0.0], [(state + which) % n_states], [ends])
    return statistics


class TestPooling:
    def test_ice_is_slippery_everywhere_alike(self):
        table = visited([1 / 3] * 3).table()
        shared = pooled(table)
        before, after = (np.abs(t.successor_probs - 1 / 3).max() for t in (table, shared))
        assert after < 0.4 * before
        np.testing.assert_allclose(np.bincount(shared.transition_row, shared.transition_count), table.n_visits)
        np.testing.assert_allclose(shared.going_on, table.going_on, atol=1e-12)
        np.testing.assert_array_equal(shared.going_on == 0, table.going_on == 0)

    @pytest.mark.parametrize("shares", [[0.85, 0.1, 0.05], [0.95, 0.05], [1.0]])
    def test_what_is_not_shared_equally_stays_as_it_was_seen(self, shares):
        table = visited(shares).table()
        assert concentration(table) == 0.0
        assert pooled(table) is table

    def test_few_visits_tell_nothing(self):
        table = visited([0.5, 0.5], n_visits=3).table()
        assert pooled(table) is table

    def test_the_agent_reads_it_and_the_paper_does_not(self):
        statistics = visited([1 / 3] * 3)
        for weights, is_pooled in (("mdpfn-2", True), ("paper", False)):
            read, _ = Agent.from_pretrained(weights).plan(statistics).planned_from
            assert (not np.array_equal(read.transition_count, statistics.table().transition_count)) is is_pooled
