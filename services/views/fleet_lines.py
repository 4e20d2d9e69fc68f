"""`status` of a whole fleet → totals, and nodes in full or one line each, problems first. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from services.views import console as view
from services.views import node_lines, silence, troubles, waiting_lines
from services.views.page import GAP, Page
from services.views.troubles import Trouble

IN_FULL = 4  # so many nodes are drawn in full
SHOWN = 20  # lines of nodes on a terminal that can scroll; those with problems all have one
WIDE = 110  # from here on a node's line has room for a bar
BAR_WIDTH = 16
LEAST_ROWS = 3
LEAST_WORDS = 40  # of what is to know of a node, for it to stand in the node's line
NUMBERS = len(f"{GAP}GPUS{GAP}{GAP} USED{GAP}")  # and slots, beside a name and before the words
RANKS = ("with problems", "changing")
LONG_HEADS = ("RESOURCE", "REQUESTED", "ALLOCATABLE", "HELD", "FREE", "MEMORY USED")
SHORT_HEADS = ("RESOURCE", "ASKED", "ALLOC", "HELD", "FREE", "USED")


@dataclass(frozen=True, slots=True)
class _Row:
    """A node and what is to know of it."""

    node: Mapping[str, Any]
    troubles: tuple[Trouble, ...]

    @property
    def rank(self) -> int:
        return troubles.rank(self.troubles)


@dataclass(frozen=True, slots=True)
class _Shape:
    """Widths of names and of numbers of slots; whether there is a bar, and words are below."""

    names: int
    slots: int
    bar: bool = False
    below: bool = False


def draw(form: Mapping[str, Any], page: Page, *, every: bool = False) -> list[Text]:
    """Draw all nodes; a few of them in full, where that fits the page.

    Args:
        form: as `status -o json` has it.
        page: to draw on; a height bounds the lines.
        every: a line for each node, also where nothing is wrong.
    """
    rows = sorted(
        (_Row(node, troubles.of(node, page.now_ns)) for node in form["nodes"]),
        key=lambda row: (row.rank, row.node["name"]),
    )
    top = [*page.flow(_summary(form, rows), 0, 2), *_controller(form, page)]
    top += resources(form["resources"], page)
    top += [*waiting_lines.draw(form.get("why", ()), page), Text()]
    if len(rows) <= IN_FULL and not every:
        lines = top + [
            line for node in form["nodes"] for line in (*node_lines.draw(node, page), Text())
        ]
        if page.height is None or len(lines) <= page.height:
            return lines[:-1]
    return top + _table(rows, page, len(top), every=every)


def resources(found: Sequence[Mapping[str, Any]], page: Page) -> list[Text]:
    """Draw what is asked for of each resource beside what there is of it."""
    if not found:
        return []
    cells = [
        (
            each["resource"],
            str(each["requested"]) + (f" ({each['waiting']} wait)" if each["waiting"] else ""),
            str(each["allocatable"]),
            str(each["held"]),
            str(each["free"]),
            node_lines.percent(each["used"]),
        )
        for each in found
    ]
    heads = SHORT_HEADS if page.narrow else LONG_HEADS
    return [page.cut(line, page.room(0)) for line in view.columns([heads, *cells], right=True)]


def _summary(form: Mapping[str, Any], rows: Sequence[_Row]) -> list[Text]:
    gpus = sum(len(row.node["gpus"]) for row in rows)
    parts = [Text(f"{_count(len(rows), 'node')}, {_count(gpus, 'GPU')}", style="bold")]
    for rank, (words, style) in enumerate(zip(RANKS, ("bold red", "yellow"), strict=True)):
        count = sum(row.rank == rank for row in rows)
        if count:
            parts.append(Text(f"{count} {words}", style=style))
    if form["waiting"]:
        parts.append(Text(f"{_count(form['waiting'], 'pod')} waiting", style="yellow"))
    return parts


def _controller(form: Mapping[str, Any], page: Page) -> list[Text]:
    heard = form.get("controller") or {}
    words = silence.of_controller(heard.get("seen"), page.now_ns)
    if not words:
        return []
    return page.flow([Text(f"{page.signs.no} {words}", style="bold red")], 0, 2)


def _limit(rows: Sequence[_Row], page: Page, shape: _Shape, above: int, *, every: bool) -> int:
    """How many nodes get a line: on a page of some height what fits, else what is worth it."""
    if page.height is not None:
        room = max(page.height - above - 2, LEAST_ROWS)  # the heading, and what is left out
        ends = itertools.accumulate(1 + shape.below * bool(row.troubles) for row in rows)
        return sum(end <= room for end in ends)
    if every or page.width is None:
        return len(rows)
    return max(SHOWN, sum(bool(row.troubles) for row in rows))


def _table(rows: Sequence[_Row], page: Page, above: int, *, every: bool) -> list[Text]:
    shape = _shape(rows, page)
    limit = _limit(rows, page, shape, above, every=every)
    shown, hidden = rows[:limit], rows[limit:]
    lines = [_head(shape, page), *(line for row in shown for line in _lines(row, shape, page))]
    if hidden:
        wrong = sum(bool(row.troubles) for row in hidden)
        nature = f"{wrong} of them with something to know" if wrong else "nothing is wrong there"
        words = f"+ {_count(len(hidden), 'node')} more, {nature}: status --all"
        lines.append(page.cut(Text(words, style="dim"), page.room(0)))
    return lines


def _shape(rows: Sequence[_Row], page: Page) -> _Shape:
    """Give the names what the numbers leave them, and the words a line where too little is left."""
    names = max((*(len(row.node["name"]) for row in rows), 4))
    slots = max((*(len(_slots(row.node)) for row in rows), 10))
    numbers = _sign(page) + 1 + slots + NUMBERS
    room = page.room(0)
    if room is None:
        return _Shape(names, slots, bar=True)
    left = room - numbers - names
    return _Shape(
        names=min(names, room - numbers),
        slots=slots,
        bar=room >= WIDE and left - BAR_WIDTH - len(GAP) >= LEAST_WORDS,
        below=left < LEAST_WORDS,
    )


def _head(shape: _Shape, page: Page) -> Text:
    bar = f"{'':{BAR_WIDTH}}{GAP}" if shape.bar else ""
    numbers = f"GPUS{GAP}{'HELD/SLOTS':>{shape.slots}}{GAP}{bar} USED"
    words = f"{'':{_sign(page)}} {'NODE':{shape.names}}{GAP}{numbers}"
    return page.cut(Text(words, style="bold"), page.room(0))


def _lines(row: _Row, shape: _Shape, page: Page) -> list[Text]:
    """The line of a node; below it what is to know, where it has no room in it."""
    line = _line(row, shape, page)
    words = Text("; ".join(each.words for each in row.troubles), line.style)
    if not shape.below:
        line.append(GAP).append_text(words).rstrip()
        return [page.cut(line, page.room(0))]
    line.rstrip()
    below = Text(" " * (_sign(page) + 1)).append_text(words)
    return [line, page.cut(below, page.room(0))] if words else [line]


def _line(row: _Row, shape: _Shape, page: Page) -> Text:
    node = row.node
    sign, style = view.verdict(page.signs, row.rank)
    name = page.cut(Text(node["name"]), shape.names).plain
    line = Text(f"{sign:{_sign(page)}} {name:{shape.names}}", style=style)
    line.append(f"{GAP}{len(node['gpus']):>4}{GAP}{_slots(node):>{shape.slots}}{GAP}", "default")
    if shape.bar:
        bar = view.signs(_states(node), page.signs, width=BAR_WIDTH - 5)
        line.append_text(bar).append(" " * (BAR_WIDTH - len(bar)) + GAP)
    return line.append(f"{node_lines.percent(_memory(node)):>5}", "default")


def _sign(page: Page) -> int:
    return max(len(view.verdict(page.signs, rank)[0]) for rank in range(3))


def _slots(node: Mapping[str, Any]) -> str:
    states = _states(node)
    return f"{states['held']}/{sum(states.values())}"


def _states(node: Mapping[str, Any]) -> dict[str, int]:
    return {
        state: sum(gpu["slots"][state] for gpu in node["gpus"]) for state in node_lines.SLOT_STATES
    }


def _memory(node: Mapping[str, Any]) -> dict[str, int]:
    used = [gpu["used"] for gpu in node["gpus"] if gpu["used"]]
    return {key: sum(each[key] for each in used) for key in ("usedMib", "memoryMib")}


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
