"""Boards of the catalogue and every layout that they can have, found without the planner."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator

from shared.geometry.board import Board, Instance, Layout, ordered
from shared.simulation.gpu import catalogue, cutting

SEVEN, FOUR, TWELVE = "a100-80gb", "a30-24gb", "rtx-pro-6000-blackwell-96gb"
MODELS = tuple(name for name, model in catalogue.models().items() if model.profiles)

Multiset = tuple[tuple[str, int], ...]


@functools.cache
def board(model: str) -> Board:
    """The board of a catalogue model that can do MIG."""
    found = cutting.board(catalogue.model(model))
    assert found is not None
    return found


def of_kinds(model: str, kinds: str) -> Counter[str]:
    """A multiset by the kinds of the catalogue: `3g 1g 1g+me`."""
    names = {profile.kind: profile.name for profile in catalogue.model(model).profiles}
    return Counter(names[kind] for kind in kinds.split())


def multiset(layout: Layout) -> Multiset:
    """What a layout consists of."""
    return tuple(sorted(Counter(instance.profile for instance in layout).items()))


@functools.cache
def layouts(model: str) -> tuple[Layout, ...]:
    """Every layout of a board, full or not, by plain enumeration of its tables."""
    every = (ordered(layout) for layout in _from(board(model), 0))
    return tuple(layout for layout in every if _allowed(model, layout))


@functools.cache
def by_multiset(model: str) -> dict[Multiset, tuple[Layout, ...]]:
    """All layouts of a board, by what they consist of."""
    found: dict[Multiset, tuple[Layout, ...]] = {}
    for layout in layouts(model):
        key = multiset(layout)
        found[key] = (*found.get(key, ()), layout)
    return found


def _allowed(model: str, layout: Layout) -> bool:
    """Whether the rules of the catalogue, which NVML knows by heart, allow instances together."""
    known = catalogue.model(model)
    shapes = {profile.name: profile for profile in known.profiles}
    kinds = Counter(shapes[instance.profile].kind for instance in layout)
    rules = known.layout
    assert rules is not None
    every = sum(kinds[kind] for kind in rules.all_media)
    return (
        all(kinds[shape.kind] <= shape.most for shape in shapes.values())
        and sum(kinds[kind] for kind in rules.at_most_one_of) <= 1
        and every <= 1
        and (not every or kinds.keys() <= rules.all_media | rules.beside_all_media)
    )


def _from(found: Board, unit: int) -> Iterator[tuple[Instance, ...]]:
    if unit >= found.units:
        yield ()
        return
    yield from _from(found, unit + 1)
    for profile in found.profiles:
        if unit in profile.starts:
            for rest in _from(found, unit + profile.size):
                yield (Instance(profile.name, unit), *rest)
