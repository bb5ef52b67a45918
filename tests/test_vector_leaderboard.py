"""The leaderboard with vectors: lives are measured once, plants can be controlled, packages may be missing."""

import csv
from pathlib import Path

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from mdpfn.bench.environments import vectors
from mdpfn.bench.environments.plants import House, Stock, Tank
from mdpfn.bench.environments.vectors import VECTOR_ENVIRONMENTS, VectorEnvironment
from mdpfn.bench.protocols.vector_leaderboard import returns_of
from mdpfn.cli.measure import leaderboard


def measured(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("plant", [Stock, House, Tank])
def test_plants_are_gymnasium_environments(plant):
    check_env(plant(), skip_render_check=True)


@pytest.mark.parametrize(
    ("plant", "rule"),
    [
        (Stock, lambda x: [np.clip(0.7 - x[0] + x[1], 0, 1)]),  # order up to a level
        (House, lambda x: int(x[:3].argmin()) if x[:3].min() < 21 else 3),  # heat the coldest room
        (Tank, lambda x: [float(x[1] < 1.0)]),
    ],
)
def test_plants_reward_control(plant, rule):
    env = plant()
    env.action_space.seed(0)
    ruled = returns_of(lambda batch: [rule(x) for x in batch], [plant() for _ in range(5)], 0)
    random = returns_of(lambda batch: [env.action_space.sample() for _ in batch], [plant() for _ in range(5)], 0)
    assert ruled.mean() > random.mean()


def test_lives_are_measured_once(tmp_path, capsys):
    path = tmp_path / "vectors.csv"
    chosen = {"environments": ("tank",), "episodes": 2, "workers": 1, "out": path, "vectors": True}
    leaderboard(agents=("mdpfn", "discretize", "random"), seeds=1, **chosen)
    rows = measured(path)
    assert [(row["agent"], row["seed"], row["episodes"]) for row in rows] == [
        (agent, "0", n) for agent in ("discretize", "mdpfn", "random") for n in ("1", "2")
    ]
    assert all(float(row["return"]) < 0 and float(row["earned"]) < 0 for row in rows)
    before = path.read_bytes()
    leaderboard(agents=("mdpfn", "random"), seeds=1, **chosen)
    assert path.read_bytes() == before
    capsys.readouterr()


def test_what_is_not_installed_is_left_out_and_named(tmp_path, monkeypatch, capsys):
    missing = VectorEnvironment("orbit", "a_package_that_is_not_there", Tank)
    monkeypatch.setitem(VECTOR_ENVIRONMENTS, "orbit", missing)
    leaderboard(("random",), ("orbit", "tank"), vectors=True, episodes=1, seeds=1, workers=1, out=tmp_path)
    assert "a_package_that_is_not_there is not installed" in " ".join(capsys.readouterr().err.split())
    assert {row["environment"] for row in measured(tmp_path / "leaderboard_vectors.csv")} == {"tank"}


@pytest.mark.skipif(not VECTOR_ENVIRONMENTS["swing-up"].is_there, reason="needs bsuite")
def test_swing_up_is_repeatable_and_cut_off():
    ends = []
    for _ in range(2):
        env = vectors.SwingUp()
        env.reset(seed=3)
        steps = [env.step(1)]
        while not (steps[-1][2] or steps[-1][3]):
            steps.append(env.step(1))
        ends.append([step[0] for step in steps])
        assert steps[-1][3]
        assert len(steps) >= 1000
    assert np.array_equal(*ends)
