"""Worlds as data: a map of cells that a person draws, as JSON, and the MDP that it describes."""

from __future__ import annotations

import base64
import json
import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mdpfn.bench.environments.grid import DOWN, LEFT, MOVES, RIGHT, UP, slippery
from mdpfn.bench.environments.outcomes import Outcome, mdp_from_outcomes
from mdpfn.errors import MdpfnError
from mdpfn.model.mdp import TabularMDP
from mdpfn.storage import read_regular_file

FORMAT, VERSION = "mdpfn-world", 1
WALL, FLOOR, START, GOAL, PIT, ICE = "#.SGX~"
WIND = {"^": UP, "v": DOWN, "<": LEFT, ">": RIGHT}
DOOR = {"u": UP, "d": DOWN, "l": LEFT, "r": RIGHT}
MARKS = {WALL, FLOOR, START, GOAL, PIT, ICE, *WIND, *DOOR}
ICE_SLIP = 2 / 3  # as on Gymnasium's FrozenLake
LARGEST_SIDE = 16  # cells
LARGEST_REWARD = 1000.0
SHORTEST_HORIZON, STEPS_PER_CELL = 40, 3  # episodes are broken off after this many steps


@dataclass(frozen=True)
class World:
    """A drawn map: one character per cell, prices on cells, and what a step, a goal and a pit pay.

    Moves go up, down, left and right; walls and the edge stop them. A move that starts on ice slips to either side as
    often as it does not, elsewhere with probability `slip`. A cell with wind blows whoever leaves it one cell
    further. A door is passed only in its direction. Goals and pits end the episode. The price of a cell is paid by
    every step that ends there.
    """

    rows: tuple[str, ...]
    prices: Mapping[tuple[int, int], float] = field(default_factory=dict)
    slip: float = 0.0
    step_reward: float = 0.0
    goal_reward: float = 1.0
    pit_reward: float = -1.0
    name: str = "a world"

    def __post_init__(self) -> None:
        _check_rows(self.rows)
        if not 0 <= self.slip <= 1:
            raise MdpfnError("slip", self.slip, "it is a probability", "give a number from 0 to 1")
        for row, column in self.prices:
            if not (0 <= row < len(self.rows) and 0 <= column < len(self.rows[0])) or self.rows[row][column] == WALL:
                limit = "it must be on a cell that can be entered"
                raise MdpfnError("a price", f"at {row},{column}", limit, "remove it or the wall")

    @classmethod
    def from_json(cls, data: Any) -> World:
        """The world that `to_json` described; everything else is refused."""
        if not isinstance(data, Mapping) or (data.get("format"), data.get("version")) != (FORMAT, VERSION):
            limit = f'it must be an object with "format": "{FORMAT}" and "version": {VERSION}'
            raise MdpfnError("the world", reprlib.repr(data), limit, "use a file that the page saved")
        known = {"format", "version", "name", "rows", "prices", *NUMBERS}
        for key in data:
            if key not in known:
                limit = f"the fields are {', '.join(sorted(known))}"
                raise MdpfnError("the world", f"having a field {reprlib.repr(key)}", limit, "remove it")
        rows, prices, name = data.get("rows"), data.get("prices", {}), data.get("name", "a world")
        if not isinstance(rows, list) or not all(isinstance(row, str) for row in rows):
            raise MdpfnError("rows", reprlib.repr(rows), "it must be a list of text", "give one text per row of cells")
        if not isinstance(prices, Mapping) or not isinstance(name, str) or len(name) > 80:
            limit = "prices are an object and the name is a short text"
            raise MdpfnError("the world", reprlib.repr((prices, name)), limit, "correct it")
        return cls(
            rows=tuple(rows),
            prices={_place(key): _number("a price", value) for key, value in prices.items()},
            name=name,
            **{key: _number(key, data[key]) for key in NUMBERS if key in data},
        )

    def to_json(self) -> dict[str, Any]:
        """The world as JSON."""
        prices = {f"{row},{column}": price for (row, column), price in sorted(self.prices.items())}
        head = {"format": FORMAT, "version": VERSION, "name": self.name, "rows": list(self.rows), "prices": prices}
        return head | {key: getattr(self, key) for key in NUMBERS}

    @property
    def cells(self) -> list[tuple[int, int]]:
        """Row and column of every state."""
        return places_in(self.rows)

    @property
    def horizon(self) -> int:
        """Steps after which an episode is broken off."""
        return max(SHORTEST_HORIZON, STEPS_PER_CELL * len(self.cells))

    def mdp(self, discount: float) -> TabularMDP:
        """The MDP that the map describes."""
        cells = self.cells
        state_of = {cell: state for state, cell in enumerate(cells)}

        def outcomes(state: int, action: int) -> list[Outcome]:
            cell = cells[state]
            mark = self._mark(cell)
            result = []
            for probability, move in slippery(action, ICE_SLIP if mark == ICE else self.slip):
                reached = self._moved(cell, move)
                if mark in WIND:
                    reached = self._moved(reached, WIND[mark])
                result.append(Outcome(probability, state_of[reached], self._reward(reached)))
            return result

        marks = [self._mark(cell) for cell in cells]
        starts = np.array([mark == START for mark in marks], dtype=np.float64)
        terminal = [state for state, mark in enumerate(marks) if mark in (GOAL, PIT)]
        start = starts / starts.sum()
        return mdp_from_outcomes(len(cells), len(MOVES), outcomes, discount=discount, start=start, terminal=terminal)

    def _mark(self, cell: tuple[int, int]) -> str:
        return self.rows[cell[0]][cell[1]]

    def _moved(self, cell: tuple[int, int], move: int) -> tuple[int, int]:
        """Where a move leads: nowhere against walls, the edge, and doors in another direction."""
        row, column = cell[0] + MOVES[move][0], cell[1] + MOVES[move][1]
        if not (0 <= row < len(self.rows) and 0 <= column < len(self.rows[0])):
            return cell
        there = self.rows[row][column]
        if there == WALL or DOOR.get(there, move) != move or DOOR.get(self._mark(cell), move) != move:
            return cell
        return row, column

    def _reward(self, cell: tuple[int, int]) -> float:
        """What a step that ends in a cell pays."""
        ends = {GOAL: self.goal_reward, PIT: self.pit_reward}
        return self.step_reward + self.prices.get(cell, 0.0) + ends.get(self._mark(cell), 0.0)


NUMBERS = ("slip", "step_reward", "goal_reward", "pit_reward")


def places_in(rows: Sequence[str], *, walls: bool = False) -> list[tuple[int, int]]:
    """Row and column of every cell of a map that can be entered, or of its walls."""
    return [(r, c) for r, row in enumerate(rows) for c, mark in enumerate(row) if (mark == WALL) == walls]


def _check_rows(rows: tuple[str, ...]) -> None:
    sizes = {len(row) for row in rows}
    if not 1 <= len(rows) <= LARGEST_SIDE or len(sizes) != 1 or not 1 <= max(sizes) <= LARGEST_SIDE:
        limit = f"it must be a rectangle of at most {LARGEST_SIDE} × {LARGEST_SIDE} cells"
        raise MdpfnError("the map", f"of {len(rows)} rows of {sorted(sizes)[:3]} cells", limit, "draw a smaller one")
    for row in rows:
        for mark in row:
            if mark not in MARKS:
                limit = f"the marks are {' '.join(sorted(MARKS))}"
                raise MdpfnError("a cell", repr(mark), limit, "choose among these")
    if not any(START in row for row in rows):
        raise MdpfnError("the map", "without a start", "episodes must start somewhere", "put an S on some cell")


def _place(key: object) -> tuple[int, int]:
    row, _, column = str(key).partition(",")
    if not (row.isdecimal() and column.isdecimal() and len(str(key)) < 8):
        raise MdpfnError(
            "the place of a price", reprlib.repr(key), "it must read row,column", 'write for example "2,0"'
        )
    return int(row), int(column)


def _number(field_name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise MdpfnError(field_name, reprlib.repr(value), "it must be a finite number", "correct it")
    if abs(value) > LARGEST_REWARD:
        raise MdpfnError(field_name, value, f"it must lie in −{LARGEST_REWARD:g} … {LARGEST_REWARD:g}", "rescale it")
    return float(value)


def shared_fragment(world: str) -> str:
    """The end of an address that opens a world: from a shared link, or a file that the page saved."""
    if "#" in world:
        return "#" + world.partition("#")[2]
    try:
        content = json.loads(read_regular_file(Path(world)))
    except MdpfnError:  # which is a ValueError, and says more
        raise
    except (ValueError, RecursionError):
        raise MdpfnError("world", repr(world), "it holds no JSON", "give a file that the page saved") from None
    text = json.dumps({"world": World.from_json(content).to_json()}, separators=(",", ":"))
    return "#" + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
