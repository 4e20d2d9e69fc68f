"""Slot counts → a bar and words, so that a person sees how full a GPU is.

Each state has a sign of its own: the bar says the same without colour.
"""

from __future__ import annotations

from collections.abc import Mapping

SIGNS = {"held": "■", "granted": "◧", "retiring": "▣", "unhealthy": "☒", "free": "□", "lost": "?"}
PLAIN_SIGNS = {
    "held": "#",
    "granted": "+",
    "retiring": "~",
    "unhealthy": "x",
    "free": ".",
    "lost": "?",
}
STYLES = {
    "held": "bold green",
    "granted": "green",
    "retiring": "yellow",
    "unhealthy": "bold red",
    "free": "default",
    "lost": "red",
}
WORST_FIRST = ("lost", "unhealthy", "retiring", "granted", "held", "free")
WIDTH = 40


def runs(counts: Mapping[str, int], *, width: int = WIDTH) -> list[tuple[str, int]]:
    """How many signs each state gets; more slots than `width` are drawn in proportion.

    A state that has a slot keeps at least one sign.
    """
    present = {state: counts[state] for state in SIGNS if counts.get(state)}
    total = sum(present.values())
    if total <= width:
        return list(present.items())
    return [(state, max(1, count * width // total)) for state, count in present.items()]


def words(counts: Mapping[str, int]) -> str:
    """The counts as a sentence part: `3 held, 5 free`."""
    present = [f"{counts[state]} {state}" for state in SIGNS if counts.get(state)]
    return ", ".join(present) or "no slots"
