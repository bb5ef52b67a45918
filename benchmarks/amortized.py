"""What planning again and again costs: lives of Taxi beside the same from scratch, steps as more states are known.

All times are processor seconds, and the fastest of some runs by turns: what else the machine does only ever adds.
"""

from __future__ import annotations

import time

import gymnasium as gym
import numpy as np

from benchmarks.from_scratch import Life, observed_life
from mdpfn import Agent

TAXI = "Taxi-v4" if "Taxi-v4" in gym.registry else "Taxi-v3"
DISCOUNTS = (0.95, 0.99)
TURNS = 3
EPISODE = 200  # steps
KNOWN = (100, 1_000, 10_000)
SLIPS = 0.2


def taxi_figures(episodes: int = 200) -> dict[str, float]:
    """Seconds of lives in Taxi, and how much faster their plans are made than from scratch, with the same actions."""
    figures = {}
    for discount in DISCOUNTS:
        name = "" if discount == DISCOUNTS[0] else f"_discount_{discount}"
        runs = {scratch: [taxi_life(episodes, discount, scratch=scratch)] for scratch in (False, True)}
        for _ in range(TURNS - 1):
            for scratch, lives in runs.items():
                lives.append(taxi_life(episodes, discount, scratch=scratch))
        if any(life.actions != runs[False][0][1].actions for lives in runs.values() for _, life in lives):
            raise AssertionError("plans from scratch lead to other actions")
        seconds, plans = ({k: min(f(life) for life in lives) for k, lives in runs.items()} for f in (_total, _planning))
        figures |= {
            f"taxi_seconds_{episodes}{name}": seconds[False],
            f"taxi_seconds_{episodes}_from_scratch{name}": seconds[True],
            f"taxi_speedup{name}": plans[True] / plans[False],
            f"taxi_plan_ms{name}": 1e3 * plans[False] / runs[False][0][1].n_plans,
            f"taxi_plan_from_scratch_ms{name}": 1e3 * plans[True] / runs[True][0][1].n_plans,
        }
    return figures


def _total(life: tuple[float, Life]) -> float:
    return life[0]


def _planning(life: tuple[float, Life]) -> float:
    return life[1].planning_seconds


def taxi_life(episodes: int, discount: float, *, scratch: bool) -> tuple[float, Life]:
    """Seconds of a life, and what was done in it."""
    agent = Agent.from_pretrained()
    with observed_life(from_scratch=scratch) as life:
        began = time.process_time()
        agent.solve(gym.make(TAXI), episodes, seed=0, discount=discount, verbose=0)
        return time.process_time() - began, life


def long_life_figures(episodes: int = 1_000, blocks: int = 10) -> dict[str, float]:
    """Microseconds per step of Taxi in the first tenth of a long life, in the last, and in the slowest."""
    marks = [(0.0, 0)]
    agent = Agent.from_pretrained()

    def on_episode(result: object) -> None:
        history = agent.problem.history
        if len(history.returns) % (episodes // blocks) == 0:
            marks.append((time.process_time(), sum(history.lengths)))

    marks[0] = time.process_time(), 0
    agent.solve(gym.make(TAXI), episodes, seed=0, on_episode=on_episode, verbose=0)
    times, steps = np.diff(np.array(marks), axis=0).T
    per_step = 1e6 * times / steps
    return {
        f"step_us_of_{episodes}_episodes_first": per_step[0],
        f"step_us_of_{episodes}_episodes_last": per_step[-1],
        f"step_us_of_{episodes}_episodes_slowest": per_step.max(),
    }


def known_states_figures(steps: int = 1_000) -> dict[str, float]:
    """Microseconds per step when so many states are known, every action of them tried twice, in a slippery torus."""
    return {f"step_us_{n}_states": min(1e6 * torus_seconds(n, steps) / steps for _ in range(TURNS)) for n in KNOWN}


def torus_seconds(n_states: int, steps: int) -> float:
    """Seconds of steps of an agent that knows a torus of about so many cells."""
    rng, side = np.random.default_rng(0), round(n_states**0.5)
    x, y = np.divmod(np.arange(side**2), side)
    moves = [((x + i) % side) * side + (y + j) % side for i, j in ((1, 0), (-1, 0), (0, 1), (0, -1))]
    leads_to = np.stack(moves, axis=1)
    agent = Agent.from_pretrained().reset(side**2, 4, seed=0)
    state, action = np.tile(np.divmod(np.arange(4 * side**2), 4), 2)
    following = np.where(rng.random(len(state)) < SLIPS, state, leads_to[state, action])
    agent.statistics.add_transitions(state, action, following == 0, following)
    place, began = side**2 // 2, 0.0
    for step in range(EPISODE + steps):
        if step == EPISODE:  # what only the first plans cost is not a step's
            began = time.process_time()
        chosen = agent.act(place)
        then = place if rng.random() < SLIPS else int(leads_to[place, chosen])
        over = step % EPISODE == EPISODE - 1
        agent.observe(place, chosen, float(then == 0), then, terminated=False, truncated=over)
        place = then
    return time.process_time() - began
