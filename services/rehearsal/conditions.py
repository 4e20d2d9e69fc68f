"""What follows `expect` and `never` → conditions, by the table in `vocabulary`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from services.rehearsal import spot as spots
from services.rehearsal import vocabulary
from services.rehearsal.spot import Spot
from services.rehearsal.story import NAMED, About, Condition

NESTED = tuple(about for about in About if about not in NAMED)
Check = Callable[[About, Mapping[str, Spot]], None]


def read(spot: Spot, extra: tuple[str, ...], check: Check) -> tuple[Condition, ...]:
    """Read all conditions of one mapping; `extra` are keys that are not conditions.

    `check` looks at each part's keys by what the rest of the story knows: nodes, pods, steps.
    """
    keys = spot.keys
    named = next((each for each in (About.POD, About.NODE) if each.value in keys), None)
    own = vocabulary.KEYS[named] if named else {}
    known = (*((named.value,) if named else ()), *own, *(each.value for each in NESTED), *extra)
    parts = spot.mapping(known if named else (*(each.value for each in About), *extra))
    found = [_nested(about, parts[about.value], check) for about in NESTED if about.value in parts]
    if named and named.value in parts:
        check(named, parts)
        wants = tuple((key, _want(parts[key], own[key])) for key in own if key in parts)
        found.insert(0, Condition(about=named, name=_name(named, parts[named.value]), wants=wants))
    about_known = keys <= set(known) | {each.value for each in About}
    nested = any(each.about in NESTED for each in found)
    if spot.is_map and about_known and not nested and not any(each.wants for each in found):
        _refuse_empty(spot, own or known)
    return tuple(found)


def _want(spot: Spot, shape: vocabulary.Shape) -> Any:
    """Read what must be seen under a key; an empty map would be seen whatever there is."""
    if spot.is_map and not spot.keys:
        spot.refuse("nothing is said of what must be seen")
    return shape(spot)


def _refuse_empty(spot: Spot, known: Iterable[str]) -> None:
    listed = ", ".join(known)
    spot.refuse(f"nothing is said of what must be seen, accepted here: {listed}")


def _name(about: About, spot: Spot) -> str:
    return vocabulary.pod_key(spot.text()) if about is About.POD else spot.text()


def _nested(about: About, spot: Spot, check: Check) -> Condition:
    shapes, given = vocabulary.KEYS[about], vocabulary.GIVEN.get(about, ())
    parts = spot.mapping(shapes)
    if parts:
        spots.required(spot, parts, *given)
    check(about, parts)
    values = {key: shape(parts[key]) for key, shape in shapes.items() if key in parts}
    wants = tuple((key, value) for key, value in values.items() if key not in given)
    if spot.is_map and spot.keys <= set(given):
        _refuse_empty(spot, [key for key in shapes if key not in given])
    return Condition(
        about=about,
        name="",
        wants=wants,
        given={key: value for key, value in values.items() if key in given},
    )
