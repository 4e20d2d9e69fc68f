"""Spans and traces (in the form of `trace -o json`) → lines: a tree of steps, a list of changes.

A line says what was done to what, how long it took, when it began, counted from the first step, and
who did it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from services.views import console as view
from services.views.page import Page, age
from shared.runtime import clock

Form = Mapping[str, Any]
# What tells steps of one name apart. A node is told beside the service, ids are in the JSON form.
ABOUT = ("step", "phase", "pod", "cause", "key", "state", "mig", "resource", "plan", "labels")
HANG = 4
HEADING = ("TRACE", "BEGAN", "TOOK", "WHAT", "NODES")
ID_SHOWN = 8  # characters of an id; `trace` takes the beginning of one


def tree(branches: Sequence[Form], page: Page) -> list[Text]:
    """Draw span branches, one step after another, each below what caused it."""
    start = min((branch["start"] for branch in branches), default=0)
    return [line for branch in branches for line in _branch(branch, page, "", "", start)]


def heading(form: Form, page: Page) -> list[Text]:
    """Name a trace, and say when it was, how long it took and whether all went well."""
    wrong = sum(not span["ok"] for span in _all(form["spans"]))
    began = f"{view.moment(clock.utc(form['start']))}"
    parts = [
        Text(f"trace {form['trace']}", style="bold"),
        Text(view.duration(form["milliseconds"]), style="cyan"),
        Text(f"began {began}, {age((page.now_ns - form['start']) / 1e9)} ago", style="dim"),
    ]
    if wrong:
        parts.append(Text(f"{wrong} {'step' if wrong == 1 else 'steps'} failed", style="bold red"))
    return page.flow(parts, 0, HANG)


def linked(form: Form, page: Page) -> list[Text]:
    """Say which other traces belong to one, and how they lie to it in time."""
    lines: list[Text] = []
    for each in form["linked"]:
        seconds = (each["start"] - form["start"]) / 1e9
        when = f"{age(abs(seconds))} {'before' if seconds < 0 else 'after'}"
        words = (f"linked: {each['name']}", when, f"trace {each['trace']}")
        lines += page.flow([Text(part, style="dim") for part in words], 0, HANG)
    return lines


def recent(forms: Sequence[Form], page: Page) -> list[Text]:
    """List changes, newest first."""
    rows = [
        (
            form["trace"][:ID_SHOWN],
            f"{age((page.now_ns - form['start']) / 1e9)} ago",
            view.duration(form["milliseconds"]),
            form["spans"][0]["name"] + ("" if _well(form) else f" {page.signs.no}"),
            ", ".join(sorted({span["node"] for span in _all(form["spans"]) if span["node"]})),
        )
        for form in forms
    ]
    return [page.cut(line, page.room(0)) for line in view.columns([HEADING, *rows])]


def _well(form: Form) -> bool:
    return all(span["ok"] for span in _all(form["spans"]))


def _all(branches: Sequence[Form]) -> Iterator[Form]:
    for branch in branches:
        yield branch
        yield from _all(branch["children"])


def _branch(branch: Form, page: Page, lead: str, below: str, start: int) -> Iterator[Text]:
    middle, last, beside, past = page.signs.branch
    children = branch["children"]
    under = below + (beside if children else past)
    lines = page.flow(_parts(branch, start), len(lead), len(under) + 1)
    yield Text(lead).append_text(lines[0][len(lead) :])
    for line in lines[1:]:
        yield Text(under).append_text(line[len(under) :])
    for number, child in enumerate(children, start=1):
        end = number == len(children)
        child_lead, child_below = (last, past) if end else (middle, beside)
        yield from _branch(child, page, below + child_lead, below + child_below, start)


def _parts(branch: Form, start: int) -> Iterator[Text]:
    yield Text(branch["name"], style="bold" if branch["ok"] else "bold red")
    about = ", ".join(_words(branch["attributes"]))
    if about:
        yield Text(about)
    yield Text(view.duration(branch["milliseconds"]), style="cyan")
    yield Text(f"at +{view.duration((branch['start'] - start) / 1e6)}", style="dim")
    yield Text(" ".join(part for part in (branch["service"], branch["node"]) if part), style="dim")
    if branch["error"]:
        yield Text(branch["error"], style="red")


def _words(attributes: Mapping[str, Any]) -> Iterator[str]:
    """The attributes that a person would ask for; a controller's step is about some node."""
    for name in ABOUT:
        if attributes.get(name):
            yield str(attributes[name])
    if "node" in attributes:
        yield f"node {attributes['node']}"
