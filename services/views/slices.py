"""The MIG instances of a GPU of `status` → a bar over its memory slices, as wide as there is room.

The sign before a profile says the same as its colour: who looks at a terminal without colours sees
which instances are held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from services.views import bars, layouts

SIGNS_AT_MOST = 4  # of slots in an instance; more are drawn in proportion
LEAST_WIDE = 6  # characters of a slice where there is room, so that GPUs are drawn alike


def bar(gpu: Mapping[str, Any], signs: Mapping[str, str], room: int | None) -> Text:
    """Draw the instances with the longest names that fit."""
    instances, units = gpu["instances"], gpu["slices"]
    for words in (_long, _short, _signs):
        cells = [_cell(each, words(each, signs)) for each in instances]
        wide = max(layouts.width(cells), LEAST_WIDE)
        if room is None or wide * units <= room:
            return layouts.bar(units, cells, wide)
    return layouts.bar(units, cells, max(2, (room or 0) // units))


def _cell(instance: Mapping[str, Any], words: str) -> layouts.Cell:
    slots = instance["slots"]
    worst = next((state for state in bars.WORST_FIRST if slots.get(state)), "free")
    sick = instance["health"] != "healthy"
    style = bars.STYLES["unhealthy" if sick else worst]
    return layouts.Cell(words, instance["start"], instance["size"], style=style)


def _long(instance: Mapping[str, Any], signs: Mapping[str, str]) -> str:
    return f"{_signs(instance, signs)} {instance['profile']}".strip()


def _short(instance: Mapping[str, Any], signs: Mapping[str, str]) -> str:
    profile, _, _ = instance["profile"].partition(".")
    return f"{_signs(instance, signs)}{profile}"


def _signs(instance: Mapping[str, Any], signs: Mapping[str, str]) -> str:
    if instance["health"] != "healthy":
        return signs["unhealthy"]
    found: Sequence[tuple[str, int]] = bars.runs(instance["slots"], width=SIGNS_AT_MOST)
    return "".join(signs[state] * count for state, count in found)
