"""Pods that wait, by reason → lines of `status`: how many, why, and the oldest of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from services.views.page import Page


def draw(found: Sequence[Mapping[str, Any]], page: Page) -> list[Text]:
    """Draw a line for each reason, the most frequent first; nothing where no pod waits."""
    return [page.cut(_line(each), page.room(0)) for each in found]


def _line(each: Mapping[str, Any]) -> Text:
    pods = "1 pod waits" if each["pods"] == 1 else f"{each['pods']} pods wait"
    line = Text(f"{pods}: ").append(each["reason"], style="yellow")
    return line.append(f"  {each['first']}: {each['sentence']}", style="dim")
