"""Small worlds of several kinds whose states are made of discrete factors; in some of them these mean nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

Codes = tuple[int, ...]
Rng = np.random.Generator
Step = Callable[[Codes, int, Rng], tuple[Codes, float, bool]]


@dataclass(frozen=True)
class FactoredWorld:
    """What there is, how it starts and what an action does."""

    sizes: Codes
    n_actions: int
    start: Callable[[Rng], Codes]
    step: Step
    horizon: int = 50


class FactoredEnv(gym.Env[Any, Any]):
    """A world as an environment: its states as factors, or (`numbers`) as what they are for a table."""

    def __init__(self, world: FactoredWorld, *, numbers: bool = False) -> None:
        self.world, self.numbers = world, numbers
        space = gym.spaces.Discrete(int(np.prod(world.sizes))) if numbers else gym.spaces.MultiDiscrete(world.sizes)
        self.observation_space, self.action_space = space, gym.spaces.Discrete(world.n_actions)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.codes, self.t = self.world.start(self.np_random), 0
        return self._observation(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.codes, reward, ended = self.world.step(self.codes, int(action), self.np_random)
        self.t += 1
        return self._observation(), float(reward), ended, self.t >= self.world.horizon, {}

    def _observation(self) -> Any:
        return int(np.ravel_multi_index(self.codes, self.world.sizes)) if self.numbers else np.array(self.codes)


MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


def keys_and_doors() -> FactoredWorld:
    """A key opens the door in a wall; behind it is the goal. Taking and opening elsewhere costs."""

    def step(x: Codes, a: int, rng: Rng) -> tuple[Codes, float, bool]:
        row, column, key, door = x
        if a == 4:  # take
            found = (row, column) == (4, 0) and not key
            return (row, column, 1 if found else key, door), -1.0 if found else -2.0, False
        if a == 5:  # open
            opens = (row, column) == (1, 2) and key and not door
            return (row, column, key, 1 if opens else door), -1.0 if opens else -2.0, False
        r, c = row + MOVES[a][0], column + MOVES[a][1]
        blocked = not (0 <= r < 5 and 0 <= c < 6) or (3 in (c, column) and c != column and not (row == 1 and door))
        if blocked:
            r, c = row, column
        goal = (r, c) == (4, 5)
        return (r, c, key, door), 10.0 if goal else -1.0, goal

    return FactoredWorld((5, 6, 2, 2), 6, lambda rng: (int(rng.integers(5)), int(rng.integers(3)), 0, 0), step, 80)


def machines(n: int = 4) -> FactoredWorld:
    """Machines wear out independently; each pays while it runs, and one at a time can be repaired."""

    def step(x: Codes, a: int, rng: Rng) -> tuple[Codes, float, bool]:
        pays = sum(1.0 for wear in x if wear < 3) - (1.5 if a < n else 0.0)
        after = [0 if j == a else min(wear + int(rng.random() < 0.3), 3) for j, wear in enumerate(x)]
        return tuple(after), pays, False

    return FactoredWorld((4,) * n, n + 1, lambda rng: (0,) * n, step)


def inventory() -> FactoredWorld:
    """Two products with their own demand; an order for both; sales pay, stock and orders cost."""

    def step(x: Codes, a: int, rng: Rng) -> tuple[Codes, float, bool]:
        pays, after = 0.0, []
        for stock, order, price in zip(x, divmod(a, 3), (3.0, 5.0), strict=True):
            held = min(stock + order, 7)
            sold = min(held, int(rng.integers(3)))
            pays += price * sold - 1.0 * order - 0.3 * held
            after.append(held - sold)
        return tuple(after), pays, False

    return FactoredWorld((8, 8), 9, lambda rng: (0, 0), step)


def lights_out(n: int = 7) -> FactoredWorld:
    """Pressing a light switches it and its neighbours in a ring; all must be off."""

    def step(x: Codes, a: int, rng: Rng) -> tuple[Codes, float, bool]:
        after = list(x)
        for j in (a - 1, a, a + 1):
            after[j % n] ^= 1
        done = not any(after)
        return tuple(after), 10.0 if done else -1.0, done

    return FactoredWorld((2,) * n, n, lambda rng: tuple((rng.integers(2, size=n) | (np.arange(n) == 0)).tolist()), step)


def sysadmin(n: int = 5) -> FactoredWorld:
    """Computers in a ring fail more often beside one that is down; one at a time can be restarted."""

    def step(x: Codes, a: int, rng: Rng) -> tuple[Codes, float, bool]:
        after = [1 if j == a else int(up and rng.random() < (0.95 if x[j - 1] else 0.6)) for j, up in enumerate(x)]
        return tuple(after), float(sum(x)) - (0.5 if a < n else 0.0), False

    return FactoredWorld((2,) * n, n + 1, lambda rng: (1,) * n, step)


def rooms() -> FactoredWorld:
    """A grid with walls by row and column, an unrelated colour, and a goal."""
    walls = {(2, c) for c in range(8) if c != 5} | {(r, 3) for r in range(3, 8) if r != 6}

    def step(x: Codes, a: int, rng: Rng) -> tuple[Codes, float, bool]:
        row, column, colour = x
        r, c = row + MOVES[a][0], column + MOVES[a][1]
        if not (0 <= r < 8 and 0 <= c < 8) or (r, c) in walls:
            r, c = row, column
        done = (r, c) == (7, 7)
        return (r, c, int(rng.integers(3)) if done else colour), 10.0 if done else -1.0, done

    return FactoredWorld((8, 8, 3), 4, lambda rng: (0, int(rng.integers(8)), int(rng.integers(3))), step, 100)


def slippery() -> FactoredWorld:
    """A grid on which a fifth of the moves goes sideways, with a pit to avoid."""

    def step(x: Codes, a: int, rng: Rng) -> tuple[Codes, float, bool]:
        row, column, load = x
        if a == 4:
            return (row, column, 1 if (row, column) == (0, 4) else load), -1.0, False
        move = MOVES[a] if rng.random() < 0.8 else MOVES[(a + 2) % 4 ^ int(rng.random() < 0.5)]
        r, c = min(max(row + move[0], 0), 4), min(max(column + move[1], 0), 4)
        if (r, c) == (2, 2):
            return (r, c, load), -10.0, True
        done = bool((r, c) == (4, 0) and load)
        return (r, c, load), 10.0 if done else -1.0, done

    return FactoredWorld((5, 5, 2), 5, lambda rng: (4, 4, 0), step, 80)


def scrambled(noise: float = 0.0, sizes: Codes = (4, 4, 4)) -> FactoredWorld:
    """Every pair leads somewhere at random and pays at random: the factors mean nothing."""
    world = np.random.default_rng(12345)
    n = int(np.prod(sizes))
    leads = world.integers(n, size=(n, 4, 2))
    pays = np.where(world.random((n, 4)) < 0.1, world.random((n, 4)) * 5, 0.0)

    def step(x: Codes, a: int, rng: Rng) -> tuple[Codes, float, bool]:
        s = int(np.ravel_multi_index(x, sizes))
        after = leads[s, a, int(rng.random() < noise)]
        return tuple(int(i) for i in np.unravel_index(after, sizes)), float(pays[s, a]), False

    return FactoredWorld(sizes, 4, lambda rng: (0,) * len(sizes), step)


def shuffled(of: FactoredWorld) -> FactoredWorld:
    """The same world with its states under names that mean nothing."""
    n = int(np.prod(of.sizes))
    name = np.random.default_rng(54321).permutation(n)
    true = np.argsort(name)

    def named(x: Codes) -> Codes:
        return tuple(int(i) for i in np.unravel_index(name[np.ravel_multi_index(x, of.sizes)], of.sizes))

    def step(x: Codes, a: int, rng: Rng) -> tuple[Codes, float, bool]:
        s = tuple(int(i) for i in np.unravel_index(true[np.ravel_multi_index(x, of.sizes)], of.sizes))
        after, reward, ended = of.step(s, a, rng)
        return named(after), reward, ended

    return FactoredWorld(of.sizes, of.n_actions, lambda rng: named(of.start(rng)), step, of.horizon)


WORLDS: dict[str, Callable[[], FactoredWorld]] = {
    "keys and doors": keys_and_doors,
    "machines": machines,
    "inventory": inventory,
    "lights out": lights_out,
    "SysAdmin": sysadmin,
    "rooms": rooms,
    "slippery errand": slippery,
    "scrambled": scrambled,
    "scrambled, noisy": lambda: scrambled(0.3),
    "shuffled rooms": lambda: shuffled(rooms()),
    "shuffled errand": lambda: shuffled(slippery()),
}
