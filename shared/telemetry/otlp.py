"""Finished spans → OTLP over HTTP, by the standard OTEL_* variables. Imported only where they ask.

The SDK's batch processor owns the queue and the sending thread: `export` never waits. A receiver
that is away costs a bounded queue; what does not fit, and what it does not take, is counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from shared import version
from shared.contract.spans import SpanRecord
from shared.telemetry import context, conventions, resource
from shared.telemetry.meters import Tally

QUEUE = 2048  # spans that wait or are on their way; the SDK's queue is as long
SCOPE = InstrumentationScope("slicewire", version.__version__)
SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class OtlpExport:
    """Hands spans of one service to the SDK's exporter; `lost` counts those that did not arrive."""

    def __init__(
        self, service: str, node: str, lost: Tally, exporter: SpanExporter | None = None
    ) -> None:
        self._resource = resource.resource(service, node)
        self._lost = lost
        self._sending = _Counted(exporter or OTLPSpanExporter(), lost)
        self._processor = BatchSpanProcessor(self._sending, max_queue_size=QUEUE)
        self._taken = 0

    @property
    def waiting(self) -> int:
        """How many spans are not settled yet."""
        return self._taken - self._sending.settled

    def export(self, span: SpanRecord) -> None:
        """Queue one span, or lose it where too many wait; returns at once."""
        if self.waiting >= QUEUE:
            self._lost.add(1)
            return
        self._taken += 1
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
            attributes=conventions.attributes(span),
            links=[trace.Link(_remote(link)) for link in map(context.parse, span.links) if link],
            kind=SpanKind.PRODUCER if conventions.is_sending(span) else SpanKind.INTERNAL,
            status=Status(StatusCode.OK) if span.ok else Status(StatusCode.ERROR, span.error),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=SCOPE,
        )


class _Counted(SpanExporter):
    """Sends batches; `settled` counts the spans that have arrived or are lost."""

    def __init__(self, exporter: SpanExporter, lost: Tally) -> None:
        self.settled = 0
        self._exporter = exporter
        self._lost = lost

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:
            self.settled += len(spans)
            if result is not SpanExportResult.SUCCESS:
                self._lost.add(len(spans))
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


def _remote(place: context.TraceContext) -> SpanContext:
    return _span_context(place, remote=True)


def _span_context(place: context.TraceContext, *, remote: bool) -> SpanContext:
    return SpanContext(
        int(place.trace_id, 16), int(place.span_id, 16), is_remote=remote, trace_flags=SAMPLED
    )
