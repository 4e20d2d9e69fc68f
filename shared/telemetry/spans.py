"""Steps that began → finished spans, handed to the bus and to OTLP.

A step remembers only ids and its start, so nothing is held open: a span exists when its step has
ended, and a crash in between loses that one span and no other. Services call `begin` and `end`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from shared.contract.spans import SpanRecord
from shared.runtime import clock
from shared.telemetry import context, meters

Attribute = str | int | float | bool
Sink = Callable[[SpanRecord], None]


@dataclass(frozen=True, slots=True)
class Step:
    """Something that has begun: where it stands in its trace, and since when (ns)."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int

    @property
    def traceparent(self) -> str:
        """What a message carries so that its reader's steps become children of this one."""
        return context.TraceContext(self.trace_id, self.span_id).traceparent


class Telemetry:
    """Makes spans of one service on one node (empty for the controller); holds its `meters`."""

    def __init__(
        self,
        service: str,
        node: str,
        *,
        now_ns: Callable[[], int] = clock.now_ns,
        random_hex: Callable[[int], str] = secrets.token_hex,
        export: Sink | None = None,
        meters: meters.Meters = meters.NOTHING,
    ) -> None:
        self.sink: Sink | None = None  # the bus, once the service has opened it
        self.meters = meters
        self._service = service
        self._node = node
        self._now_ns = now_ns
        self._random_hex = random_hex
        self._export = export

    def begin(self, name: str, parent: str = "", *, start_ns: int | None = None) -> Step:
        """Begin a step; `parent` is a traceparent, empty or unreadable to begin a new trace.

        `name` is a verb and the kind of its object ("publish intent"), never an id.
        """
        above = context.parse(parent)
        return Step(
            name=name,
            trace_id=above.trace_id if above else self._random_hex(16),
            span_id=self._random_hex(8),
            parent_id=above.span_id if above else "",
            start_ns=self._now_ns() if start_ns is None else start_ns,
        )

    def end(
        self,
        step: Step,
        *,
        attributes: Mapping[str, Attribute] | None = None,
        error: str = "",
        links: Sequence[str] = (),
        end_ns: int | None = None,
    ) -> SpanRecord:
        """End a step and hand on its span; `links` are traceparents of other traces that matter."""
        span = SpanRecord(
            trace_id=step.trace_id,
            span_id=step.span_id,
            parent_id=step.parent_id,
            name=step.name,
            service=self._service,
            node=self._node,
            start_ns=step.start_ns,
            end_ns=max(step.start_ns, self._now_ns() if end_ns is None else end_ns),
            ok=not error,
            error=error,
            attributes=dict(attributes or {}),
            links=tuple(link for link in links if link),
        )
        for take in (self.sink, self._export):
            if take is not None:
                take(span)
        return span
