"""The examples run with the default weights, and what they promise comes true."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples import continuous, customer_journey, game, inventory, maintenance

from mdpfn.weights import DEFAULT_WEIGHTS, shipped_models

pytestmark = pytest.mark.skipif(DEFAULT_WEIGHTS not in shipped_models(), reason="no default weights are shipped")


def test_planned_maintenance_beats_running_until_broken() -> None:
    rule, learned = maintenance.main()
    assert learned > rule


def test_planned_orders_beat_orders_by_feeling() -> None:
    before, after = inventory.main()
    assert after > before


def test_numbers_are_learned_as_vectors_and_in_bins() -> None:
    assert continuous.as_vectors() > -150  # at −200 an episode is broken off
    assert continuous.in_bins() > 200  # random actions last about 22 steps


def test_the_game_is_won(tmp_path: Path) -> None:
    assert game.main(picture=tmp_path / "sticks.png") > 0.8
    assert (tmp_path / "sticks.png").exists()


def test_customers_bring_more_by_the_plan() -> None:
    before, after = customer_journey.main()
    assert after > 1.3 * before
