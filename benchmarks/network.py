"""What the network adds: `python -m benchmarks.network [--weights NAME …] [--worlds N] [--json FILE]`.

In held-out worlds of the prior the shipped explorer lives for 64 episodes. After 1, 2, 4, … of them, several models say
what to exploit by, given the same data; beside them stands an untrained network, which says what certainty equivalence
says. Explorers do not ask the network, so what is earned is the same but for the last episode.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import torch
import tyro
from rich.progress import track

from mdpfn import Agent
from mdpfn.bench.environments import TabularEnv
from mdpfn.bench.protocols.parallel import generator
from mdpfn.model.exact import Scorer
from mdpfn.network.network import PolicyNetwork
from mdpfn.network.tensors import to_numpy
from mdpfn.online.history import History
from mdpfn.prior.world import WorldConfig, sample_world
from mdpfn.training.config import CONFIGS
from mdpfn.weights import load_model, save_model

WORLDS = WorldConfig(n_states=(4, 64), n_actions=(2, 12))
PROBES = (1, 2, 4, 8, 16, 32, 64)
NOTHING_LEARNED = "without"


def main(
    weights: tuple[str, ...] = ("mdpfn-2",),
    worlds: int = 200,
    out: Annotated[Path | None, tyro.conf.arg(name="json")] = None,
) -> None:
    agents = {name: Agent(load_model(name)) for name in weights} | {NOTHING_LEARNED: untrained()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of worlds that are large for their budget
        lives = [known(agents, i) for i in track(range(worlds), "worlds")]
    scores = {name: np.array([life[name] for life in lives]) for name in agents}
    figures = {Path(name).stem: summary(found, scores[NOTHING_LEARNED]) for name, found in scores.items()}
    for name, found in figures.items():
        print(f"{name:12s} known {found['known']:.4f}, adds {found['adds']:+.4f} ± {found['standard_error']:.4f}")
    if out:
        out.write_text(json.dumps({"worlds": worlds, "models": figures}, indent=2) + "\n", encoding="utf-8")


def known(agents: dict[str, Agent], number: int) -> dict[str, list[float]]:
    """Clipped normalized scores of what every agent would exploit by, after each number of episodes of one life."""
    rng = generator("what the network adds", number)
    mdp = sample_world(rng, config=WORLDS)
    lives, scorer = next(iter(agents.values())), Scorer(mdp)
    found: dict[str, list[float]] = {name: [] for name in agents}

    def after_episode(history: History) -> None:
        if len(history.returns) in PROBES:
            for name, agent in agents.items():
                plan = agent.plan(lives.problem.learner.evidence, discount=mdp.discount)
                found[name].append(float(np.clip(scorer(plan.greedy), 0, 1)))

    env = TabularEnv(mdp, horizon=int(rng.integers(20, 120)))
    lives.solve(env, PROBES[-1], seed=number, discount=mdp.discount, on_episode=after_episode)
    return found


def summary(scores: np.ndarray, without: np.ndarray) -> dict[str, object]:
    """Means over worlds, and how much more it is than without, with the standard error over worlds."""
    more = (scores - without).mean(axis=1)
    after = dict(zip(map(str, PROBES), scores.mean(axis=0).round(4).tolist(), strict=True))
    error = float(more.std(ddof=1) / len(more) ** 0.5)
    return {"known": float(scores.mean()), "adds": float(more.mean()), "standard_error": error, "after": after}


def untrained() -> Agent:
    """An agent whose network has learned nothing yet: it exploits by certainty equivalence."""
    config = CONFIGS["mdpfn-2"]
    torch.manual_seed(0)
    with TemporaryDirectory() as directory:
        path = Path(directory) / "untrained.safetensors"
        card = {"training": {"config": config.to_dict(), "steps": 0}}
        save_model(path, to_numpy(PolicyNetwork(config.network)), card)
        return Agent(load_model(path))


if __name__ == "__main__":
    tyro.cli(main)
