"""Held-out lives: what the network is worth on MDPs it never trained on, with data it did not gather."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from mdpfn.network.features import Inputs
from mdpfn.network.network import PolicyNetwork
from mdpfn.training.lives import Crowd, Life, LifeConfig
from mdpfn.training.objective import ObjectiveConfig
from mdpfn.training.pool import Meeting, Pool, Sampler

CHUNK = 64


def held_out_meetings(
    config: LifeConfig,
    sampler: Sampler,
    seed: list[int],
    n_lives: int,
    temperature: float,
    inputs: Inputs = "planned",
) -> list[Meeting]:
    """Lives of all ages, in which nobody asked the network what to do."""
    coverage, uniform, exploring, _ = config.behaviours
    alone = replace(config, slots=n_lives, behaviours=(coverage, uniform, exploring, 0.0))
    lives = Pool(alone, sampler, seed).lives
    rng = np.random.default_rng(seed)
    meetings = []
    for first in range(0, n_lives, CHUNK):
        mine = lives[first : first + CHUNK]
        _grow_up(rng, mine, temperature)
        meetings.append(Meeting(Crowd(mine), temperature, inputs))
    return meetings


def _grow_up(rng: np.random.Generator, lives: list[Life], temperature: float) -> None:
    """Let every life run to its last episode but one."""
    while young := [life for life in lives if life.episodes_left > 1]:
        meeting = Meeting(Crowd(young), temperature)
        meeting.crowd.live(rng, meeting.acting_policy(np.zeros(len(meeting.q))))


@torch.no_grad()
def validate_meetings(network: PolicyNetwork, meetings: list[Meeting], objective: ObjectiveConfig) -> dict[str, float]:
    """Means over all lives: the scores of the policy and of its best actions, losses."""
    was_training = network.training
    network.eval()
    parameter = next(network.parameters())
    found: list[dict[str, float]] = []
    for meeting in meetings:
        answer = network(meeting.tokens.to(parameter.dtype, parameter.device))
        loss, parts, _ = meeting.loss(answer, network.config.quantiles, objective)
        parts = {"validation_loss": float(loss)} | {f"validation_{name}": value for name, value in parts.items()}
        parts["validation_greedy_score"] = meeting.exploiting_score(answer.policy_logits.double().cpu().numpy())
        parts["certain_score"] = meeting.certain_score()
        found.append(parts)
    network.train(was_training)
    weight = np.array([len(meeting.crowd.lives) for meeting in meetings], dtype=np.float64)
    weight /= weight.sum()
    return {name: float(weight @ [parts[name] for parts in found]) for name in found[0]}
