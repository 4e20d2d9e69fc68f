"""Which instances exclude each other although there is room for both.

NVML gives how many of one profile a GPU takes. That media extensions exclude each other across
profiles stands in its documentation only, so it follows from the attributes in the names here.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.geometry import profiles
from shared.geometry.board import Board, Counts


def broken(board: Board, counts: Counts) -> str:
    """Say which rule a multiset of the board's profiles breaks, "" if none."""
    for name, count in sorted(counts.items()):
        most = board.profile(name).most
        if count > most:
            return f"a GPU takes at most {most} of {name}"
    return _media(name for name, count in sorted(counts.items()) for _ in range(count))


def _media(names: Iterable[str]) -> str:
    parsed = [(name, profiles.parse(name)) for name in names]
    extended = [name for name, known in parsed if known and known.plus == profiles.MEDIA]
    every = [name for name, known in parsed if known and known.plus == profiles.ALL_MEDIA]
    if len(extended) > 1:
        return f"only one instance of a GPU may have the media extensions (+{profiles.MEDIA})"
    if len(every) > 1:
        return f"only one instance of a GPU may have all media engines (+{profiles.ALL_MEDIA})"
    others = [name for name, known in parsed if known and known.minus != profiles.MEDIA]
    if every and others != every:
        other = next(name for name in others if name not in every)
        return (
            f"{every[0]} has all media engines, the others must be -{profiles.MEDIA}:"
            f" {other} is not"
        )
    return ""
