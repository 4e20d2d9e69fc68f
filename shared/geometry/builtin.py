"""The names that need no text: `all-disabled`, `all-enabled`, `all-<profile>`, `all-balanced`.

What they mean follows from the board, so they exist for every model, also for one that NVIDIA's
default file does not list; for those that it lists they mean the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from shared.geometry import profiles
from shared.geometry.board import Board
from shared.geometry.config import Wanted

DISABLED = "all-disabled"
ENABLED = "all-enabled"
BALANCED = "all-balanced"
ALWAYS = (DISABLED, ENABLED, BALANCED)
_PREFIX = "all-"


def has_form(name: str) -> bool:
    """Whether a name is a built-in one on some GPU, though perhaps on none that is here."""
    return name in ALWAYS or bool(name.startswith(_PREFIX) and _profile(name))


def names(boards: Collection[Board]) -> tuple[str, ...]:
    """Return the names that mean something to one of these boards at least."""
    found: dict[str, None] = dict.fromkeys((DISABLED, ENABLED) if boards else (DISABLED,))
    for board in boards:
        found |= dict.fromkeys(_PREFIX + profiles.dotted(each.name) for each in board.profiles)
        if _balanced(board):
            found[BALANCED] = None
    return tuple(found)


def nearest(name: str, boards: Iterable[Board]) -> str:
    """Return the `all-<profile>` of one of these boards that another board's name is near to."""
    known = (each.name for board in boards for each in board.profiles)
    found = profiles.nearest(_profile(name), known) if name.startswith(_PREFIX) else ""
    return _PREFIX + profiles.dotted(found) if found else ""


def wanted(name: str, board: Board | None) -> Wanted | None:
    """Return what a name means for a GPU (None: one without MIG), None if nothing."""
    if name == DISABLED:
        return Wanted(enabled=False)
    if board is None:
        return None
    if name == ENABLED:
        return Wanted(enabled=True)
    counts = _balanced(board) if name == BALANCED else _filled(name, board)
    return Wanted(enabled=True, counts=tuple(sorted(counts.items()))) if counts else None


def _filled(name: str, board: Board) -> dict[str, int]:
    """As many of one profile as a GPU takes."""
    for profile in board.profiles:
        if _PREFIX + profiles.dotted(profile.name) == name:
            return {profile.name: profile.most}
    plain = _profile(name)
    found = board.find(plain) if plain and name.startswith(_PREFIX) else None
    return {found.name: found.most} if found else {}


def _profile(name: str) -> str:
    return profiles.spelling(name.removeprefix(_PREFIX))


def _balanced(board: Board) -> dict[str, int]:
    """Two 1g, one 2g, and a 3g where the board has one."""
    plain = {
        known.slices: profile.name
        for profile in sorted(board.profiles, key=lambda each: -each.size)  # the smaller one stays
        if (known := profiles.parse(profile.name)) and not known.plus and not known.minus
    }
    if 1 not in plain or 2 not in plain:
        return {}
    counts = {plain[1]: 2, plain[2]: 1}
    return counts | {plain[3]: 1} if 3 in plain else counts
