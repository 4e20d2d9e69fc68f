"""The spans on the bus → the trace that a step set off, as a `trace` condition sees it."""

from __future__ import annotations

from collections.abc import Sequence

from services.rehearsal import matching
from services.rehearsal.stage import Observation
from services.views import spantree
from shared.bus import logs
from shared.bus.connection import Bus


async def observe(bus: Bus, since_ns: int, names: Sequence[str]) -> Observation:
    """Look for the trace that began since a step and covers most of the wanted names.

    Raises:
        BusError: the bus did not answer.
    """
    if not bus.connected:
        return Observation({}, {})
    return choose(spantree.traces(await logs.read_spans(bus)), since_ns, names)


def choose(traces: Sequence[spantree.Trace], since_ns: int, names: Sequence[str]) -> Observation:
    """The best trace among those that began since; pure."""
    began = [trace for trace in traces if trace.start_ns >= since_ns]
    if not began:
        return Observation({"covers": [], "connected": False}, {})
    best = max(began, key=lambda trace: len(_covered(_reached(trace, traces), names)))
    reached = _reached(best, traces)
    values = {
        "covers": _covered(reached, names),
        "connected": all(trace.whole for trace in reached),
    }
    shown = {
        "trace": best.trace_id,
        "tree": [branch.form() for trace in reached for branch in trace.roots],
    }
    return Observation(values, shown)


def _reached(trace: spantree.Trace, among: Sequence[spantree.Trace]) -> list[spantree.Trace]:
    return [trace, *spantree.linked(trace, among)]


def _covered(reached: Sequence[spantree.Trace], names: Sequence[str]) -> list[str]:
    """For each wanted name (or pattern) the first span that has it."""
    seen = [span.name for trace in reached for span in trace.spans]
    found = (next((each for each in seen if matching.fits(name, each)), None) for name in names)
    return [name for name in found if name is not None]
