"""Moves on a grid whose cells are numbered row by row; shared by every environment drawn as a map."""

from __future__ import annotations

UP, DOWN, LEFT, RIGHT = range(4)
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
PERPENDICULAR = {UP: (LEFT, RIGHT), DOWN: (LEFT, RIGHT), LEFT: (UP, DOWN), RIGHT: (UP, DOWN)}


def neighbour(cell: int, move: int, n_rows: int, n_columns: int) -> int:
    """The cell one `move` away; a move off the grid stays in place."""
    row, column = divmod(cell, n_columns)
    down, right = MOVES[move]
    row, column = min(max(row + down, 0), n_rows - 1), min(max(column + right, 0), n_columns - 1)
    return row * n_columns + column
