"""The layout of states as cells of a board, and the names of actions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdpfn.arrays import entry_rows
from mdpfn.bench.environments.frozen_lake import MAP as LAKE
from mdpfn.bench.environments.maze import DYNA_MAZE, FOUR_ROOMS, carved_maze
from mdpfn.bench.environments.textbook_grid import RUSSELL_NORVIG_MAP
from mdpfn.model.exact import optimal_q
from mdpfn.model.mdp import TabularMDP
from mdpfn.play.world import World, places_in

MAPS: dict[str, Sequence[str]] = {  # of environments whose states are the cells of a map that are no walls, by rows
    **{f"gridworld-{n}x{n}": ["." * n] * n for n in (3, 5, 8)},
    "frozen-lake": LAKE,
    **{f"gym-frozen-lake-{n}x{n}{kind}": ["." * n] * n for n in (4, 8) for kind in ("", "-slippery")},
    **{f"cliff-walking{kind}": ["." * 12] * 4 for kind in ("", "-slippery")},
    "russell-norvig-grid": RUSSELL_NORVIG_MAP,
    "teleport-grid": ["." * 5] * 5,
    **{f"windy-grid{kind}": ["." * 10] * 7 for kind in ("", "-king", "-gusts")},
    "four-rooms": FOUR_ROOMS,
    "dyna-maze": DYNA_MAZE,
    **{f"carved-maze-{n}": carved_maze(n, seed=0) for n in (4, 6)},
}
UP_DOWN_LEFT_RIGHT = ("up", "down", "left", "right")
ACTIONS: dict[str, tuple[str, ...]] = {  # of environments that move otherwise
    **{f"gym-frozen-lake-{n}x{n}{kind}": ("left", "down", "right", "up") for n in (4, 8) for kind in ("", "-slippery")},
    **{f"cliff-walking{kind}": ("up", "right", "down", "left") for kind in ("", "-slippery")},
    **{
        f"windy-grid-{kind}": (*UP_DOWN_LEFT_RIGHT, "up left", "up right", "down left", "down right")
        for kind in ("king", "gusts")
    },
    "taxi": ("down", "up", "right", "left", "pick up", "drop off"),
}
NARROW = 9  # states in a row; more become a block


@dataclass(frozen=True)
class Board:
    """A cell per state, walls between them, and names of actions; moves by name are drawn as arrows."""

    cells: Sequence[tuple[int, int]]  # row and column of each state
    labels: Sequence[str]  # what each state is called
    marks: Sequence[str]  # one character per state, as in a `World`
    walls: Sequence[tuple[int, int]]
    actions: Sequence[str]

    @classmethod
    def of_world(cls, world: World) -> Board:
        """The map as it was drawn."""
        marks = [world.rows[r][c] for r, c in world.cells]
        return cls(world.cells, _named(world.cells), marks, places_in(world.rows, walls=True), UP_DOWN_LEFT_RIGHT)

    @classmethod
    def of_environment(cls, name: str, mdp: TabularMDP) -> Board:
        """Cells where the environment has a map, a block of numbered states where it has none."""
        marks = _marks(mdp)
        rows = MAPS.get(name)
        if rows is not None:
            cells, walls = places_in(rows), places_in(rows, walls=True)
            return cls(cells, _named(cells), marks, walls, ACTIONS.get(name, UP_DOWN_LEFT_RIGHT))
        if name == "taxi":
            return cls(*_taxi(), marks, [], ACTIONS[name])
        return cls.of_names([f"state {i}" for i in range(mdp.n_states)], [str(a) for a in range(mdp.n_actions)], marks)

    @classmethod
    def of_names(cls, states: Sequence[str], actions: Sequence[str], marks: Sequence[str]) -> Board:
        """States in the order of their names, a block of them."""
        width = len(states) if len(states) <= NARROW else math.ceil(math.sqrt(len(states)))
        cells = [divmod(i, width) for i in range(len(states))]
        return cls(cells, states, marks, [], actions)

    def to_json(self) -> dict[str, Any]:
        """The board as JSON."""
        places = [*self.cells, *self.walls]
        return {
            "rows": 1 + max(row for row, _ in places),
            "columns": 1 + max(column for _, column in places),
            "cells": list(self.cells),
            "labels": list(self.labels),
            "marks": list(self.marks),
            "walls": list(self.walls),
            "actions": list(self.actions),
        }


def _named(cells: Sequence[tuple[int, int]]) -> list[str]:
    return [f"row {row + 1}, column {column + 1}" for row, column in cells]


def _marks(mdp: TabularMDP) -> list[str]:
    """S where episodes start, if not anywhere; G and X where they end, well or badly."""
    marks = np.full(mdp.n_states, ".")
    if (mdp.start > 0).sum() <= max(1, mdp.n_states // 8):
        marks[mdp.start > 0] = "S"
    outside = ~mdp.terminal[entry_rows(mdp.transition) // mdp.n_actions]
    best = optimal_q(mdp).max(axis=1)
    for state in np.flatnonzero(mdp.terminal):
        entered = outside & (mdp.transition.indices == state)
        paid = mdp.outcome_reward[entered]
        good = len(paid) and (paid.max() > 0 or (best.max() <= 0 and paid.max() >= mdp.outcome_reward.min()))
        marks[state] = "G" if good else "X"
    return marks.tolist()


def _taxi() -> tuple[list[tuple[int, int]], list[str]]:
    """Twenty maps of 5 × 5 cells: where the passenger is from left to right, where to from top to bottom."""
    places = ("red", "green", "yellow", "blue")
    cells, labels = [], []
    for row in range(5):
        for column in range(5):
            for passenger in range(5):
                for destination in range(4):
                    cells.append((6 * destination + row, 6 * passenger + column))
                    where = "in the taxi" if passenger == 4 else f"at {places[passenger]}"
                    to = places[destination]
                    labels.append(f"row {row + 1}, column {column + 1}, passenger {where}, going to {to}")
    return cells, labels
