"""What using the agent costs: a step, a plan, a life, an import, a row of data.

`python -m benchmarks.agent [--json FILE] [--rows N]`, on one core. Steps are timed beside tabular Q-learning as it
is usually written, in the same run.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import gymnasium as gym
import numpy as np
import tyro

from benchmarks.amortized import known_states_figures, long_life_figures, taxi_figures
from benchmarks.planning import best_of
from mdpfn import Agent

STEPS = 20_000


class TabularQLearning:
    """ε-greedy Q-learning with a NumPy table, behind the same two calls."""

    def __init__(self, n_states: int, n_actions: int) -> None:
        self.q = np.zeros((n_states, n_actions))
        self.rng = np.random.default_rng(0)

    def act(self, observation: int) -> int:
        if self.rng.random() < 0.1:
            return int(self.rng.integers(self.q.shape[1]))
        return int(np.argmax(self.q[observation]))

    def observe(
        self, observation: int, action: int, reward: float, following: int, *, terminated: bool, truncated: bool
    ) -> None:
        target = reward + 0.95 * (0.0 if terminated else self.q[following].max())
        self.q[observation, action] += 0.1 * (target - self.q[observation, action])


def main(json_file: Annotated[Path | None, tyro.conf.arg(name="json")] = None, rows: int = 1_000_000) -> None:
    steps = random_steps()
    agent = Agent.from_pretrained().reset(16, 4, seed=0)
    agent.act(0)  # what only the first plan costs is not a step's
    figures = {
        "environment_step_us": 1e6 * environment_seconds() / STEPS,
        "agent_step_us": 1e6 * best_of(3, lambda: live_through(agent, steps)) / STEPS,
        "q_learning_step_us": 1e6 * best_of(3, lambda: live_through(TabularQLearning(16, 4), steps)) / STEPS,
        "replan_ms": 1e3 * replan_seconds(),
        "import_seconds": fresh_python("import mdpfn"),
        "help_seconds": fresh_python("import sys; sys.argv[1:] = ['--help']; from mdpfn import cli\n", "cli.main()"),
        **taxi_figures(),
        **known_states_figures(),
        **long_life_figures(),
        **csv_figures(rows),
    }
    for name, value in figures.items():
        print(f"{name:44s} {value:12,.3f}")
    if json_file:
        json_file.write_text(json.dumps(figures, indent=2) + "\n")


def random_steps() -> list[tuple[int, float, int]]:
    """(observation, reward, next observation) of random steps on FrozenLake."""
    env = gym.make("FrozenLake-v1")
    env.action_space.seed(0)
    observation, _ = env.reset(seed=0)
    steps = []
    for _ in range(STEPS):
        following, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        steps.append((observation, float(reward), following))
        observation = env.reset()[0] if terminated or truncated else following
    return steps


def live_through(agent: Agent | TabularQLearning, steps: list[tuple[int, float, int]]) -> None:
    for observation, reward, following in steps:
        action = agent.act(observation)
        agent.observe(observation, action, reward, following, terminated=False, truncated=False)


def environment_seconds() -> float:
    """The environment's own share of as many steps, for comparison."""
    env = gym.make("FrozenLake-v1")
    env.reset(seed=0)

    def run() -> None:
        for _ in range(STEPS):
            _, _, terminated, truncated, _ = env.step(2)
            if terminated or truncated:
                env.reset()

    return best_of(2, run)


def replan_seconds() -> float:
    """One plan from the statistics of 40 episodes of FrozenLake 4×4 with the default weights."""
    agent = Agent.from_pretrained()
    agent.solve("FrozenLake-v1", episodes=40, seed=0)

    def replan() -> None:
        agent.observe(0, 0, 0.0, 0, terminated=False)
        agent.plan()

    return best_of(200, replan)  # the undisturbed one: a plan is short beside what else a machine does


def fresh_python(code: str, then: str = "") -> float:
    """Seconds that `code` and `then` take in a new interpreter, without its start."""
    timed = f"import time; began = time.perf_counter()\n{code}\ntry:\n    {then or 'pass'}\nexcept SystemExit: pass\n"
    timed += "import sys; print(time.perf_counter() - began, file=sys.stderr)"

    def run() -> float:
        done = subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True)
        return float(done.stderr.split()[-1])

    return min(run() for _ in range(5))


def csv_figures(rows: int) -> dict[str, float]:
    """Rows per second and memory of `fit` on a CSV of states and actions, as ids and as names."""
    figures: dict[str, float] = {"csv_rows": rows}
    with tempfile.TemporaryDirectory() as directory:
        for kind in ("ids", "names"):
            path = Path(directory) / f"{kind}.csv"
            write_rows(path, rows, named=kind == "names")
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            figures[f"csv_{kind}_rows_per_second"] = rows / seconds_of(lambda p=path: Agent.from_pretrained().fit(p))
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            figures[f"csv_{kind}_extra_mb"] = (after - before) / (1e6 if sys.platform == "darwin" else 1e3)
    return figures


def seconds_of(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def write_rows(path: Path, rows: int, *, named: bool) -> None:
    """A walk on a ring of 500 states with 6 actions and noisy rewards, written block by block."""
    rng = np.random.default_rng(0)
    state_name, action_name = ("station {}", "drive {}") if named else ("{}", "{}")
    state = 0
    with path.open("w") as file:
        file.write("state,action,reward,next_state,terminated\n")
        for start in range(0, rows, 100_000):
            n = min(100_000, rows - start)
            action, reward = rng.integers(6, size=n), rng.normal(size=n).round(3)
            moves = np.concatenate([[state], action - 2 + rng.integers(2, size=n)]).cumsum() % 500
            states, actions = [state_name.format(i) for i in moves], [action_name.format(i) for i in action]
            columns = (states[:-1], actions, reward.tolist(), states[1:])
            file.writelines(f"{s},{a},{r},{t},False\n" for s, a, r, t in zip(*columns, strict=True))
            state = int(moves[-1])


if __name__ == "__main__":
    tyro.cli(main)
