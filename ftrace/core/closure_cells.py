"""What the cells of closures hold: a cell may be empty, before its variable is bound."""

from types import CellType
from typing import Any


def content(cell: CellType) -> Any:
    """What a cell holds, or None."""
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def is_filled(cell: CellType) -> bool:
    """Whether a cell holds anything."""
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
