"""The attacks of `python -m benchmarks.faults`, a few tries of each: nothing is lost, nothing half-done."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from benchmarks.faults import ATTACKS

TRIES = {
    "malformed inputs": 100,
    "interrupts at any line": 60,
    "interrupts while solving": 4,
    "kills while saving, with a reader": 4,
}
FEW = {"threads that share an agent": 2, "malformed logs": 15}


@pytest.mark.parametrize("name", ATTACKS)
def test_no_try_of_an_attack_succeeds(name: str, tmp_path: Path) -> None:
    attack = ATTACKS[name]
    tally = attack(tmp_path, random.Random(0), (TRIES | FEW).get(name, 40))
    assert tally.tries > 0
    assert tally.failures == 0, tally.examples
