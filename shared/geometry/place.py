"""Where instances stand: the best placement of a multiset of profiles, by search over the tables.

Nothing is tried on hardware. The search runs over memory slices from the left, each state (slice,
profiles still to place) once, so it is exact and its cost does not grow with orders of creation.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from shared.geometry import rules
from shared.geometry.board import Board, Counts, Instance, Layout, Profile, bits

Worth = tuple[int, int]  # of finding an instance where it stands; the first number counts first
_NOBODY: Mapping[Instance, Worth] = MappingProxyType({})

_Cost = tuple[int, int, int]  # lost worth (twice), then crowding: the less, the better
_Found = tuple[_Cost, tuple[tuple[int, str], ...]]  # with (start, name) from the left, for ties
_NOTHING: _Found = ((0, 0, 0), ())


def arrange(
    board: Board, counts: Counts, *, taken: int = 0, worth: Mapping[Instance, Worth] = _NOBODY
) -> Layout | None:
    """Place all of `counts` outside the slices in `taken`; None if they do not fit.

    Of all placements the one that keeps most worth is taken, then the one that takes least from
    others: that is the order in which NVIDIA's driver fills a board, and it keeps room for the
    large profiles. The last word has the order of starts, so equal input gives equal output.
    """
    names = sorted(name for name in counts if counts[name])
    wanted = tuple(board.profile(name) for name in names)
    search = _Search(wanted, board.units, taken, worth, crowding(board))
    found = search.best(0, tuple(counts[name] for name in names))
    return None if found is None else tuple(Instance(name, start) for start, name in found[1])


def fit(board: Board, counts: Counts) -> Layout | None:
    """Place `counts` on an empty board; None if the board or its rules do not allow it."""
    return None if rules.broken(board, counts) else arrange(board, counts)


@functools.lru_cache(maxsize=64)
def crowding(board: Board) -> Mapping[Instance, int]:
    """Return for each placement of the board with how many placements it cannot stand."""
    masks = {
        Instance(profile.name, start): bits(profile.size, start)
        for profile in board.profiles
        for start in profile.starts
    }
    return {
        instance: sum(mask & other != 0 for other in masks.values())
        for instance, mask in masks.items()
    }


@dataclass(slots=True)
class _Search:
    """One search: the profiles to place, in a fixed order, and what each state gave."""

    profiles: tuple[Profile, ...]
    units: int
    taken: int
    worth: Mapping[Instance, Worth]
    crowding: Mapping[Instance, int]
    seen: dict[tuple[int, tuple[int, ...]], _Found | None] = field(default_factory=dict)

    def best(self, unit: int, left: tuple[int, ...]) -> _Found | None:
        """Place what is `left` from `unit` on."""
        if not any(left):
            return _NOTHING
        if (unit, left) not in self.seen:
            self.seen[unit, left] = min(self._choices(unit, left), default=None)
        return self.seen[unit, left]

    def _choices(self, unit: int, left: tuple[int, ...]) -> Iterator[_Found]:
        needed = sum(
            profile.size * count for profile, count in zip(self.profiles, left, strict=True)
        )
        if needed > self.units - unit:
            return
        skipped = self.best(unit + 1, left)
        if skipped is not None:
            yield skipped
        for number, profile in enumerate(self.profiles):
            if not left[number] or not self._has_room(profile, unit):
                continue
            fewer = (*left[:number], left[number] - 1, *left[number + 1 :])
            rest = self.best(unit + profile.size, fewer)
            if rest is not None:
                yield self._with(Instance(profile.name, unit), rest)

    def _has_room(self, profile: Profile, unit: int) -> bool:
        return unit in profile.starts and not self.taken & bits(profile.size, unit)

    def _with(self, instance: Instance, rest: _Found) -> _Found:
        (first, second, crowd), places = rest
        kept = self.worth.get(instance, (0, 0))
        cost = (first - kept[0], second - kept[1], crowd + self.crowding[instance])
        return cost, ((instance.start, instance.profile), *places)
