"""What `slicewire trace` prints → the trace that a step set off, as a `trace` condition sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from services.rehearsal import matching
from services.rehearsal.real.parts import Parts
from services.rehearsal.stage import Observation

CLOCKS_NS = 1_000_000_000  # by which the cluster's clocks may be behind ours


async def observe(parts: Parts, since_ns: int, wants: Mapping[str, Any]) -> Observation:
    """Of the changes since a step, the one that covers most of the wanted names.

    Raises:
        StageError: nobody answers.
    """
    names: Sequence[str] = wants.get("covers", ())
    newest = [
        each
        for each in (await parts.ask("trace"))["traces"]
        if each["start"] >= since_ns - CLOCKS_NS
    ]
    if not newest:
        return Observation({"covers": [], "connected": False}, {})
    best = max(newest, key=lambda each: len(covered([each], names)))
    whole = await parts.ask("trace", best["trace"])
    reached = [whole] + [
        await parts.ask("trace", each["trace"]) for each in whole.get("linked", ())
    ]
    values = {
        "covers": covered(reached, names),
        "connected": all(each["whole"] for each in reached),
    }
    tree = [branch for each in reached for branch in each["spans"]]
    return Observation(values, {"trace": best["trace"], "tree": tree})


def covered(traces: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """For each wanted name (or pattern) the first span that has it."""
    seen = [name for trace in traces for name in _names(trace["spans"])]
    found = (next((each for each in seen if matching.fits(name, each)), None) for name in names)
    return [name for name in found if name is not None]


def _names(branches: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for branch in branches:
        yield branch["name"]
        yield from _names(branch["children"])
