"""Pages to draw on, at a moment that tests know."""

from __future__ import annotations

import io

from services.views import console as view
from services.views.page import Page

NOW_NS = 1_800_000_090_000_000_000


def page(
    width: int | None = None, height: int | None = None, marks: view.Marks = view.MARKS
) -> Page:
    """A page of this size."""
    console = view.open_console(io.StringIO())
    return Page(console=console, signs=marks, now_ns=NOW_NS, width=width, height=height)
