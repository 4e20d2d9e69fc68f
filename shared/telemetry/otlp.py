"""Finished spans → OTLP over HTTP, by the standard OTEL_* variables. Imported only where they ask.

The SDK's batch processor owns the queue and the sending thread: `export` never waits, a receiver
that is away costs a bounded queue whose overflow is dropped and logged by the SDK.
"""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from shared import version
from shared.contract.messages import SpanRecord
from shared.telemetry import context

SCOPE = InstrumentationScope("slicewire", version.__version__)
SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class OtlpExport:
    """Hands spans of one service to the SDK's exporter."""

    def __init__(self, service: str, node: str, exporter: SpanExporter | None = None) -> None:
        place = {"k8s.node.name": node} if node else {}
        self._resource = Resource.create(
            {"service.name": f"slicewire-{service}", "service.version": version.__version__} | place
        )
        self._processor = BatchSpanProcessor(exporter or OTLPSpanExporter())

    def export(self, span: SpanRecord) -> None:
        """Queue one span; returns at once."""
        self._processor.on_end(self._readable(span))

    def close(self) -> None:
        """Send what is queued and end the thread; blocks, so call it off the loop."""
        self._processor.shutdown()  # type: ignore[no-untyped-call]  # the SDK's own method has no types

    def _readable(self, span: SpanRecord) -> ReadableSpan:
        above = context.TraceContext(span.trace_id, span.parent_id)
        return ReadableSpan(
            name=span.name,
            context=_span_context(context.TraceContext(span.trace_id, span.span_id), remote=False),
            parent=_remote(above) if span.parent_id else None,
            resource=self._resource,
            attributes=span.attributes,
            links=[trace.Link(_remote(link)) for link in map(context.parse, span.links) if link],
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.OK) if span.ok else Status(StatusCode.ERROR, span.error),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=SCOPE,
        )


def _remote(place: context.TraceContext) -> SpanContext:
    return _span_context(place, remote=True)


def _span_context(place: context.TraceContext, *, remote: bool) -> SpanContext:
    return SpanContext(
        int(place.trace_id, 16), int(place.span_id, 16), is_remote=remote, trace_flags=SAMPLED
    )
