"""MIG instances → a bar of memory slices, so that a person sees what stands where.

`slicewire plan` draws layouts before and after, `slices` what is there for `slicewire status`; each
instance is as wide as its share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.text import Text

KEPT, GONE, NEW = "", "-", "+"
_STYLES = {KEPT: "default", GONE: "red", NEW: "green"}
_FREE = "."


@dataclass(frozen=True, slots=True)
class Cell:
    """One instance in a bar; its sign says the same as its colour, unless it has a style."""

    name: str
    start: int
    size: int
    sign: str = KEPT
    style: str = ""

    @property
    def words(self) -> str:
        """What stands in the cell."""
        return self.sign + self.name


def width(cells: Iterable[Cell]) -> int:
    """How many characters a slice needs, so that every name fits into its instance."""
    return max((-(-(len(cell.words) + 2) // cell.size) for cell in cells), default=2)


def bar(units: int, cells: Sequence[Cell], wide: int) -> Text:
    """Draw instances over all slices of a board: `[1g.10gb][     2g.20gb    ]........`."""
    text = Text()
    unit = 0
    for cell in sorted(cells, key=lambda cell: cell.start):
        text.append(_FREE * (cell.start - unit) * wide, style="dim")
        inside = cell.words.center(cell.size * wide - 2)
        text.append(f"[{inside}]", style=cell.style or _STYLES[cell.sign])
        unit = cell.start + cell.size
    return text.append(_FREE * (units - unit) * wide, style="dim")
