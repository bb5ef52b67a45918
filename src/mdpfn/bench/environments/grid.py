"""Maps of cells and moves between them, shared by every environment that is drawn as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

UP, DOWN, LEFT, RIGHT = range(4)
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
SIDES = {UP: (LEFT, RIGHT), DOWN: (LEFT, RIGHT), LEFT: (UP, DOWN), RIGHT: (UP, DOWN)}


@dataclass(frozen=True)
class GridMap:
    """The cells of a map that can be entered, numbered row by row, with the character of each."""

    cells: tuple[tuple[int, int], ...]
    characters: str

    @classmethod
    def of(cls, rows: Sequence[str]) -> GridMap:
        """The map drawn by `rows`, where # is a wall."""
        free = [(r, c, mark) for r, row in enumerate(rows) for c, mark in enumerate(row) if mark != "#"]
        return cls(tuple((r, c) for r, c, _ in free), "".join(mark for _, _, mark in free))

    def __len__(self) -> int:
        return len(self.cells)

    def where(self, marks: str) -> list[int]:
        """The states whose character is one of `marks`."""
        return [state for state, character in enumerate(self.characters) if character in marks]

    def move(self, state: int, step: tuple[int, int]) -> int:
        """The state one `step` down and right of this one; walls and the edge of the map stop it."""
        row, column = self.cells[state]
        target = (row + step[0], column + step[1])
        return self.cells.index(target) if target in self.cells else state


def slippery(action: int, slip: float) -> list[tuple[float, int]]:
    """The moves that `action` may become, with their probabilities: to each side with slip / 2."""
    first, second = SIDES[action]
    return [(1 - slip, action), (slip / 2, first), (slip / 2, second)]
