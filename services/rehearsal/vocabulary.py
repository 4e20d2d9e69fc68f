"""Which keys a condition may have, and the shape of each: the language's one table.

`language` reads conditions by it, `schema` tells editors of it; `observe` has an observer for each
key (a test compares them).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from services.rehearsal import matching
from services.rehearsal.spot import Spot
from services.rehearsal.story import About
from shared.domain.slots import SlotState
from shared.waiting.reasons import Reason

Shape = Callable[[Spot], Any]

SLOT_STATES = tuple(state.value for state in SlotState)


def count(spot: Spot) -> int:
    """A whole number from 0."""
    return spot.whole(least=0)


def text(spot: Spot) -> str:
    """A text; a pattern where it starts with `~`."""
    return spot.pattern()


def truth(spot: Spot) -> bool:
    """Either true or false."""
    return spot.truth()


def counts(spot: Spot) -> dict[str, int]:
    """Names with a whole number each."""
    return {name: count(each) for name, each in spot.mapping().items()}


def texts(spot: Spot) -> dict[str, str | None]:
    """Names with a text each; null where there must be none."""
    return {name: None if each.is_null else text(each) for name, each in spot.mapping().items()}


def listing(spot: Spot) -> list[str]:
    """A list of texts."""
    return [text(each) for each in spot.items()]


def pod_key(name: str) -> str:
    """`namespace/name` of a pod written with or without its namespace."""
    return name if "/" in name else f"default/{name}"


def pods(spot: Spot) -> list[str]:
    """A list of pods, with or without their namespace."""
    return [name if name.startswith("~") else pod_key(name) for name in listing(spot)]


def listing_or_count(spot: Spot) -> list[str] | int:
    """A list of texts, or how many there are."""
    return listing(spot) if spot.is_list else count(spot)


def slots(spot: Spot) -> dict[str, dict[str, int]]:
    """For each resource, how many of its slots are in the named states."""
    return {resource: _states(each) for resource, each in spot.mapping().items()}


def _states(spot: Spot) -> dict[str, int]:
    if spot.is_map and not spot.keys:
        spot.refuse(f"nothing is said of its slots, accepted here: {', '.join(SLOT_STATES)}")
    return {state: count(each) for state, each in spot.mapping(SLOT_STATES).items()}


@dataclass(frozen=True, slots=True)
class Fields:
    """A shape: a map with some of these keys and a text each."""

    names: tuple[str, ...]

    def __call__(self, spot: Spot) -> dict[str, str]:
        """Read the map."""
        return {name: text(each) for name, each in spot.mapping(self.names).items()}


def pod(spot: Spot) -> str:
    """A pod, with or without its namespace."""
    return pod_key(spot.text())


def reason(spot: Spot) -> str:
    """One of the reasons of `slicewire why`."""
    return spot.choice([each.value for each in Reason], "reason")


def place(spot: Spot) -> int | str:
    """A GPU: its index or its UUID."""
    return spot.text() if spot.is_text else count(spot)


def by_gpu(spot: Spot) -> dict[str, int]:
    """For GPUs by index, a whole number each."""
    return {name: count(each) for name, each in _indexes(spot).items()}


def geometry(spot: Spot) -> dict[str, matching.Whole]:
    """For GPUs by index, how many instances of each MIG profile there are, and no others."""
    return {
        name: matching.Whole({profile: count(each) for profile, each in gpu.mapping().items()})
        for name, gpu in _indexes(spot).items()
    }


def _indexes(spot: Spot) -> dict[str, Spot]:
    parts = spot.mapping()
    for name, each in parts.items():
        if not name.isdecimal():
            each.refuse("found no index of a GPU before this", "write 0, 1, …")
    return parts


EVENT = Fields(("reason", "message"))
BY_GPU = ("geometry", "kept")

KEYS: Mapping[About, Mapping[str, Shape]] = MappingProxyType(
    {
        About.NODE: {
            "capacity": counts,
            "allocatable": counts,
            "labels": texts,
            "schedulable": truth,
            "condition": Fields(("type", "status", "reason", "message")),
            "event": EVENT,
            "geometry": geometry,
            "kept": by_gpu,
            "rejections": count,
            "slots": slots,
            "registrations": count,
            "lists": count,
        },
        About.POD: {
            "phase": text,
            "reason": text,
            "message": text,
            "node": text,
            "slots": listing_or_count,
            "gpus": count,
            "uuids": listing_or_count,
            "env": texts,
            "devices": listing_or_count,
            "mounts": listing_or_count,
            "cdi": listing_or_count,
            "evicted": truth,
            "restarts": count,
            "event": EVENT,
        },
        About.WHO: {"node": text, "gpu": place, "pods": pods},
        About.WHY: {"pod": pod, "reason": reason, "sentence": text, "hint": text},
        About.TRACE: {"from": text, "covers": listing, "connected": truth},
        About.BUS: {"consumers": count, "streams": count},
        About.API: {"watches": count, "requests": count},
    }
)

GIVEN: Mapping[About, tuple[str, ...]] = {
    About.WHO: ("node", "gpu"),
    About.WHY: ("pod",),
    About.TRACE: ("from",),
}
"""Keys that say what to look at; all others say what must be seen."""
