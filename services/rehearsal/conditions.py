"""What follows `expect` and `never` → conditions, by the table in `vocabulary`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
    keys = spot.mapping().keys()
    named = next((each for each in (About.POD, About.NODE) if each.value in keys), None)
    own = vocabulary.KEYS[named] if named else {}
    known = (*((named.value,) if named else ()), *own, *(each.value for each in NESTED), *extra)
    parts = spot.mapping(known if named else (*(each.value for each in About), *extra))
    found = [_nested(about, parts[about.value], check) for about in NESTED if about.value in parts]
    if named and named.value in parts:
        check(named, parts)
        wants = tuple((key, own[key](parts[key])) for key in own if key in parts)
        found.insert(0, Condition(about=named, name=_name(named, parts[named.value]), wants=wants))
    if keys <= set(known) | {each.value for each in About} and not any(
        each.wants for each in found
    ):
        listed = ", ".join(own or known)
        spot.refuse(f"nothing is said of what must be seen, accepted here: {listed}")
    return tuple(found)


def _name(about: About, spot: Spot) -> str:
    return vocabulary.pod_key(spot.text()) if about is About.POD else spot.text()


def _nested(about: About, spot: Spot, check: Check) -> Condition:
    shapes, given = vocabulary.KEYS[about], vocabulary.GIVEN.get(about, ())
    parts = spot.mapping(shapes)
    if parts:
        spots.required(spot, parts, *given)
    check(about, parts)
    values = {key: shape(parts[key]) for key, shape in shapes.items() if key in parts}
    return Condition(
        about=about,
        name="",
        wants=tuple((key, value) for key, value in values.items() if key not in given),
        given={key: value for key, value in values.items() if key in given},
    )
