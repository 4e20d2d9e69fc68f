"""What a picture is drawn on: a width, signs, the present moment; and how lines are fitted to it.

Without a width (a pipe, a file) nothing is wrapped or cut, so that `grep` finds whole lines.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from services.views import console as view
from shared.runtime import clock

GAP = "  "
NARROW = 80
LEAST = 40  # a narrower terminal gets what fits into this
CUT, PLAIN_CUT = "…", "..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Width and height are None where there is no limit."""

    console: Console
    signs: view.Marks
    now_ns: int
    width: int | None = None
    height: int | None = None

    @property
    def narrow(self) -> bool:
        """Whether long headings have to be short ones."""
        return self.width is not None and self.width < NARROW

    def room(self, indent: int) -> int | None:
        """How many characters a line has after its indent."""
        return None if self.width is None else max(self.width, LEAST) - indent

    def flow(self, parts: Iterable[Text], indent: int, hang: int) -> list[Text]:
        """Set parts one after another; what does not fit goes on below, at the indent `hang`."""
        lines: list[Text] = []
        line = Text(" " * indent)
        empty = True
        for part in parts:
            gap = 0 if empty else len(GAP)
            if self.width is None or len(line) + gap + len(part) <= max(self.width, LEAST):
                line.append(" " * gap).append_text(part)
                empty = False
                continue
            if not empty:
                lines.append(line)
                line = Text(" " * hang)
            first, *more = self._wrapped(part, max(len(line), hang))
            line.append_text(first)
            for piece in more:
                lines.append(line)
                line = Text(" " * hang).append_text(piece)
            empty = False
        return [*lines, line]

    def cut(self, text: Text, room: int | None) -> Text:
        """Cut a text that is longer than the room, visibly."""
        if room is None or len(text) <= room:
            return text
        mark = CUT if self.signs is view.MARKS else PLAIN_CUT
        return text[: max(room - len(mark), 0)].append(mark)

    def since(self, stamp: str | None) -> float | None:
        """How many seconds ago a moment of the JSON forms was; negative ones are to come."""
        return elapsed(stamp, self.now_ns)

    def _wrapped(self, part: Text, indent: int) -> Sequence[Text]:
        pieces = part.wrap(self.console, max(LEAST, self.width or 0) - indent)
        for piece in pieces:
            piece.rstrip()
        return list(pieces)


def of(console: Console, *, height: int | None = None) -> Page:
    """A page as wide as the terminal, or as COLUMNS says."""
    bounded = console.is_terminal or os.environ.get("COLUMNS", "0") != "0"
    return Page(
        console=console,
        signs=view.marks(console),
        now_ns=clock.now_ns(),
        width=console.width if bounded else None,
        height=height,
    )


def elapsed(stamp: str | None, now_ns: int) -> float | None:
    """Seconds from a moment of the JSON forms until now; None where there is none."""
    return None if stamp is None else (now_ns - _ns(stamp)) / 1e9


def age(seconds: float) -> str:
    """A length of time in one unit, as short as people say it."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def _ns(stamp: str) -> int:
    return int(datetime.datetime.fromisoformat(stamp).timestamp() * 1e9)
