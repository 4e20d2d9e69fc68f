"""What the stream `spans` holds: finished steps of the services, for `slicewire trace`."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.contract.messages import Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRecord:
    """A finished span, as `slicewire trace` reads it. Times in ns since the epoch, ids in hex."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    service: str
    node: str
    start_ns: int
    end_ns: int
    ok: bool = True
    error: str = ""
    attributes: dict[str, str | int | float | bool] = field(default_factory=dict)
    links: tuple[str, ...] = ()  # traceparents of spans in other traces that belong to this one


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """A batch of finished spans of one service."""

    stamp: Stamp
    spans: tuple[SpanRecord, ...]
