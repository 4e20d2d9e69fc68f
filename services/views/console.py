"""How commands and rehearsals write to a terminal: one console, its signs, its durations."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.text import Text

from services.views import bars


@dataclass(frozen=True, slots=True)
class Marks:
    """Signs that a terminal can show; plain ones where its encoding is not Unicode."""

    yes: str
    no: str
    act: str
    bar: Mapping[str, str]
    branch: tuple[str, str, str, str]  # middle, last, beside a middle one, beside a last one


USUAL = 80  # characters in a line
MARKS = Marks("✓", "✗", "→", bars.SIGNS, ("├─ ", "└─ ", "│  ", "   "))
PLAIN_MARKS = Marks("ok", "NO", "->", bars.PLAIN_SIGNS, ("|- ", "`- ", "|  ", "   "))


def open_console(file: TextIO) -> Console:
    """A console on `file`; colours only on a terminal that wants them (NO_COLOR is honoured).

    What users wrote may have letters that the file's encoding has not: these are escaped.
    """
    if isinstance(file, io.TextIOWrapper):
        file.reconfigure(errors="backslashreplace")
    console = Console(file=file, highlight=False, soft_wrap=True, markup=False, emoji=False)
    if not console.width:  # as COLUMNS=0 has it, and then nothing at all would be drawn
        console.width = USUAL
    return console


def marks(console: Console) -> Marks:
    """The signs for this console."""
    return MARKS if console.encoding.lower().startswith("utf") else PLAIN_MARKS


def verdict(marks_: Marks, rank: int) -> tuple[str, str]:
    """Sign and style of what is wrong (0), goes on (1) or is well (2)."""
    return ((marks_.no, "red"), (marks_.act, "yellow"), (marks_.yes, "green"))[rank]


def signs(counts: Mapping[str, int], marks_: Marks, *, width: int = bars.WIDTH) -> Text:
    """Draw counts as signs."""
    text = Text()
    for state, length in bars.runs(counts, width=width):
        text.append(marks_.bar[state] * length, style=bars.STYLES[state])
    return text


def bar(counts: Mapping[str, int], marks_: Marks, *, width: int = bars.WIDTH) -> Text:
    """Draw counts as signs, then say them."""
    drawn = signs(counts, marks_, width=width)
    return drawn.append("  " if counts else "").append(bars.words(counts))


def columns(rows: Sequence[Sequence[str]], *, right: bool = False) -> list[Text]:
    """Align rows of words; the first row is the heading. Nothing is ever cut: people copy ids.

    Columns after the first are aligned to the right if so asked, as numbers are.
    """
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(_aligned(row, widths, right=right)).rstrip() for row in rows]
    return [Text(lines[0], style="bold"), *(Text(line) for line in lines[1:])]


def _aligned(row: Sequence[str], widths: Sequence[int], *, right: bool) -> Iterator[str]:
    for at, (word, width) in enumerate(zip(row, widths, strict=True)):
        yield word.rjust(width) if right and at else word.ljust(width)


def note(sentence: str) -> Text:
    """Something to mind, that nobody has to mend."""
    return Text(sentence, style="yellow")


def moment(stamp: str | None) -> str:
    """A time of the JSON forms, to the second."""
    return f"{stamp.partition('.')[0].rstrip('Z')}Z" if stamp else "never"


def duration(milliseconds: float) -> str:
    """A length of time with the digits that matter."""
    if milliseconds >= 10_000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds:.0f} ms" if milliseconds >= 10 else f"{milliseconds:.1f} ms"
