"""Why a multiset of profiles does not fit a board, in slices, and what would fit instead."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

from shared.geometry import place, rules
from shared.geometry.board import Board, Counts, Layout, Profile, bits, words

_SHOWN = 3  # layouts in a suggestion


class InfeasibleError(Exception):
    """What was asked for cannot stand on the board; `nearest` are layouts that can, in words."""

    def __init__(self, reason: str, nearest: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.nearest = nearest

    @property
    def suggestion(self) -> str:
        """What to write instead, "" if nothing comes near."""
        return f"what fits: {'; '.join(self.nearest)}" if self.nearest else ""


def reason(board: Board, counts: Counts, beside: Layout = ()) -> str:
    """Say why `counts` cannot stand beside instances that must stay, "" if they can."""
    standing = Counter(instance.profile for instance in beside)
    total = Counter(counts) + standing
    said = words(counts) + (f" beside {words(standing)}" if standing else "")
    over = _too_large(board, total) or rules.broken(board, total)
    if over:
        return f"{said}: {over}"
    return _fragmented(board, counts, board.mask(beside))


def nearest(board: Board, counts: Counts) -> tuple[str, ...]:
    """Return the full layouts that differ from `counts` by the fewest instances, in words."""
    wanted = Counter(counts)

    def distance(candidate: Counter[str]) -> tuple[int, int, int, str]:
        changed = (wanted - candidate) + (candidate - wanted)
        special = sum(not name.endswith("gb") for name in candidate.keys() - wanted.keys())
        slices = abs(_slices(board, wanted) - _slices(board, candidate))
        return changed.total(), slices, special, words(candidate)

    closest = sorted(map(Counter, _full(board)), key=distance)
    return tuple(words(candidate) for candidate in closest[:_SHOWN])


def largest_parts(board: Board, counts: Counts, beside: Layout) -> tuple[str, ...]:
    """Return the largest parts of `counts` that can stand beside `beside`, in words."""
    standing = Counter(instance.profile for instance in beside)
    taken = board.mask(beside)
    fitting = [
        part
        for part in _parts(board, counts)
        if not rules.broken(board, part + standing)
        and place.arrange(board, part, taken=taken) is not None
    ]
    most = max((_slices(board, part) for part in fitting), default=0)
    best = sorted(words(part) for part in fitting if most and _slices(board, part) == most)
    return tuple(best[:_SHOWN])


def _too_large(board: Board, total: Counts) -> str:
    profile = board.profile
    units = sum(profile(name).size * count for name, count in total.items())
    slices = _slices(board, total)
    over = [f"memory slices {units} of {board.units}"] if units > board.units else []
    if slices > board.widest.slices:
        over.append(f"compute slices {slices} of {board.widest.slices}")
    return ", ".join(over)


def _fragmented(board: Board, counts: Counts, taken: int) -> str:
    """Name the first profile, largest first, that finds no place, and the slices it could use."""
    placed: Counter[str] = Counter()
    layout: Layout = ()
    for profile in _largest_first(board, counts):
        placed[profile.name] += 1
        more = place.arrange(board, placed, taken=taken)
        if more is None:
            free = _free(board, taken | board.mask(layout))
            starts = _either(profile.starts)
            return f"fragmented: free {free}; {profile.name} needs start {starts}"
        layout = more
    return ""


def _largest_first(board: Board, counts: Counts) -> Iterator[Profile]:
    found = [board.profile(name) for name in Counter(counts).elements()]
    yield from sorted(found, key=lambda profile: (-profile.size, len(profile.starts), profile.name))


def _free(board: Board, taken: int) -> str:
    free = [str(unit) for unit in range(board.units) if not taken & bits(1, unit)]
    return ",".join(free) or "none"


def _either(starts: Iterable[int]) -> str:
    *first, last = map(str, sorted(starts))
    return f"{', '.join(first)} or {last}" if first else last


def _slices(board: Board, counts: Counts) -> int:
    return sum(board.profile(name).slices * count for name, count in counts.items())


def _parts(board: Board, counts: Counts) -> Iterator[Counter[str]]:
    names = sorted(counts)
    ranges = (range(min(counts[name], board.profile(name).most) + 1) for name in names)
    for numbers in itertools.product(*ranges):
        yield Counter({name: number for name, number in zip(names, numbers, strict=True) if number})


@functools.lru_cache(maxsize=64)
def _full(board: Board) -> tuple[dict[str, int], ...]:
    """Return each multiset that fills a board, so that no profile finds a place any more."""
    found: dict[tuple[tuple[str, int], ...], None] = {}
    for names in _fillings(board, 0, 0):
        counts = Counter(names)
        if not rules.broken(board, counts):
            found[tuple(sorted(counts.items()))] = None
    return tuple(map(dict, found))


def _fillings(board: Board, unit: int, taken: int) -> Iterator[tuple[str, ...]]:
    """Give the profiles of each way to fill the board from `unit` on."""
    if unit >= board.units:
        yield ()
        return
    fitting = [
        profile
        for profile in board.profiles
        if unit in profile.starts and not taken & bits(profile.size, unit)
    ]
    for profile in fitting:
        for rest in _fillings(board, unit + profile.size, taken):
            yield (profile.name, *rest)
    if not fitting:
        yield from _fillings(board, unit + 1, taken)
