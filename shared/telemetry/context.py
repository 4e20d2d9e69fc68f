"""W3C trace context: the one text form in which a change travels through headers and files.

`00-<32 hex trace id>-<16 hex span id>-01` (www.w3.org/TR/trace-context). Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FORM = re.compile(r"[0-9a-f]{2}-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-[0-9a-f]{2}")
_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16


@dataclass(frozen=True, slots=True)
class TraceContext:
    """Which trace, and which span of it is the parent of what follows. Lower-case hex."""

    trace_id: str
    span_id: str

    @property
    def traceparent(self) -> str:
        """The header's text; always sampled."""
        return f"00-{self.trace_id}-{self.span_id}-01"


def parse(traceparent: str) -> TraceContext | None:
    """Read a header's text; None for an empty, malformed or all-zero one (then a trace begins)."""
    match = _FORM.fullmatch(traceparent.strip())
    if match is None or match["trace"] == _NO_TRACE or match["span"] == _NO_SPAN:
        return None
    return TraceContext(match["trace"], match["span"])


def trace_id(traceparent: str) -> str:
    """The trace id of a header's text, empty where there is none."""
    context = parse(traceparent)
    return context.trace_id if context else ""
