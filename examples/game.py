"""A game of sticks against someone who plays at random: a Gymnasium environment, solved in a few hundred games.

Two players take one, two or three of the sticks in turn; whoever takes the last one wins. The winning way is to leave
a multiple of four, which the agent has to find out.

Run it with `python examples/game.py`; it leaves its learning curve in sticks.png.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from mdpfn import Agent

STICKS = 13


class Sticks(gym.Env[int, int]):
    """The state is the number of sticks left; the opponent moves inside of `step`."""

    observation_space = spaces.Discrete(STICKS + 1)
    action_space = spaces.Discrete(3, start=1)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = STICKS
        return self.left, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.left = max(self.left - int(action), 0)
        if self.left == 0:
            return 0, 1.0, True, False, {}
        self.left = max(self.left - int(self.np_random.integers(1, 4)), 0)
        return self.left, -1.0 if self.left == 0 else 0.0, self.left == 0, False, {}


def win_rate(agent: Agent, games: int = 1_000) -> float:
    """The share of games that the agent wins when it no longer explores."""
    env, wins = Sticks(), 0
    observation, _ = env.reset(seed=1)
    for _ in range(games):
        ended = False
        while not ended:
            observation, reward, ended, _, _ = env.step(agent.predict(observation, on_unknown="best")[0])
        wins += reward > 0
        observation, _ = env.reset()
    return wins / games


def main(games: int = 200, picture: Path | None = Path("sticks.png")) -> float:
    agent = Agent.from_pretrained()
    result = agent.solve(Sticks(), episodes=games, seed=0)
    print(result)
    if picture is not None:
        result.plot(picture)
    for left in range(STICKS, 0, -1):
        print(f"{left:2d} sticks: take {agent.predict(left, on_unknown='best')[0]}")
    rate = win_rate(agent)
    print(f"wins {rate:.0%} of its games after {games} games of practice")
    return rate


if __name__ == "__main__":
    main()
