"""Steps become spans when they end; context travels as a traceparent; OTLP is one adapter."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from shared.contract.spans import SpanRecord
from shared.contract.table import Role
from shared.telemetry import context, conventions, meters, otel_meters, otlp, setup, spans
from tests.support import logged

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_traceparent_reads_back_as_the_same_context() -> None:
    parsed = context.parse(TRACEPARENT)
    assert parsed is not None
    assert parsed.traceparent == TRACEPARENT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00-abc-def-01",
        TRACEPARENT.upper(),
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        TRACEPARENT + "x",
    ],
    ids=["empty", "short", "upper case", "no trace", "longer"],
)
def test_an_unreadable_traceparent_begins_a_new_trace(text: str) -> None:
    step = spans.Telemetry("agent", "n").begin("apply plan", text)
    assert step.parent_id == ""
    assert step.trace_id not in text


def test_a_step_under_a_traceparent_is_a_child_in_the_same_trace() -> None:
    telemetry = spans.Telemetry("agent", "n")
    parent = telemetry.begin("change config", TRACEPARENT)
    child = telemetry.begin("publish intent", parent.traceparent)
    assert parent.trace_id == child.trace_id == context.trace_id(TRACEPARENT)
    assert (parent.parent_id, child.parent_id) == ("b7ad6b7169203331", parent.span_id)


def test_the_span_reaches_sink_and_export_only_when_its_step_ends() -> None:
    seen: list[tuple[str, SpanRecord]] = []
    times = iter([100, 300])
    telemetry = spans.Telemetry(
        "agent", "n1", now_ns=lambda: next(times), export=lambda span: seen.append(("otlp", span))
    )
    telemetry.sink = lambda span: seen.append(("bus", span))
    step = telemetry.begin("apply plan")
    assert seen == []
    span = telemetry.end(step, attributes={"gpus": 2}, links=("", TRACEPARENT), error="no room")
    assert seen == [("bus", span), ("otlp", span)]
    assert (span.start_ns, span.end_ns, span.ok, span.error) == (100, 300, False, "no room")
    assert (span.attributes, span.links) == ({"gpus": 2}, (TRACEPARENT,))


def test_a_clock_set_back_never_makes_a_span_end_before_its_start() -> None:
    times = iter([300, 100])
    telemetry = spans.Telemetry("agent", "n1", now_ns=lambda: next(times))
    span = telemetry.end(telemetry.begin("apply plan"))
    assert span.end_ns == span.start_ns


def test_the_exporter_gets_ids_times_links_and_status_unchanged() -> None:
    memory = InMemorySpanExporter()
    export = otlp.OtlpExport("agent", "n1", meters.Tally(), memory)
    telemetry = spans.Telemetry("agent", "n1", export=export.export)
    root = telemetry.begin("change config", start_ns=5)
    span = telemetry.end(
        telemetry.begin("publish intent", root.traceparent), error="refused", links=(TRACEPARENT,)
    )
    export.close()
    (sent,) = memory.get_finished_spans()
    assert sent.context is not None
    assert sent.parent is not None
    assert f"{sent.context.trace_id:032x}" == root.trace_id
    assert (f"{sent.context.span_id:016x}", f"{sent.parent.span_id:016x}") == (
        span.span_id,
        root.span_id,
    )
    assert f"{sent.links[0].context.span_id:016x}" == "b7ad6b7169203331"
    assert sent.status.description == "refused"
    assert sent.resource.attributes["service.name"] == "slicewire-agent"
    assert sent.resource.attributes["k8s.node.name"] == "n1"


@pytest.mark.parametrize(
    ("name", "given", "sent"),
    [
        ("evict pod", {"node": "n.1"}, {"k8s.node.name": "n.1"}),
        (
            "evict pod",
            {"pod": "team/train"},
            {"k8s.namespace.name": "team", "k8s.pod.name": "train"},
        ),
        ("cut GPU", {"gpu": "GPU-1"}, {"hw.id": "GPU-1", "hw.type": "gpu"}),
        (
            "send list",
            {"resource": "r", "slots": 3},
            {"slicewire.resource": "r", "slicewire.slots": 3},
        ),
        (
            "publish intent",
            {},
            {
                "messaging.system": "nats",
                "messaging.operation.name": "publish",
                "messaging.operation.type": "send",
                "messaging.destination.name": "intent",
            },
        ),
    ],
    ids=["node", "pod", "GPU", "ours", "a hop over the bus"],
)
def test_otlp_names_attributes_as_the_conventions_do(
    name: str, given: dict[str, spans.Attribute], sent: dict[str, spans.Attribute]
) -> None:
    """On the bus, for people, they keep their short names."""
    telemetry = spans.Telemetry("agent", "n1")
    span = telemetry.end(telemetry.begin(name), attributes=given)
    assert conventions.attributes(span) == sent
    assert span.attributes == given


class Stuck(SpanExporter):
    """An exporter whose receiver never answers until the test lets it."""

    def __init__(self) -> None:
        self.free = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        assert self.free.wait(20)
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self.free.set()


def test_a_receiver_that_is_away_never_makes_a_step_wait_and_each_lost_span_is_counted() -> None:
    stuck, lost = Stuck(), meters.Tally()
    export = otlp.OtlpExport("agent", "n1", lost, stuck)
    telemetry = spans.Telemetry("agent", "n1", export=export.export)
    for _ in range(5000):
        telemetry.end(telemetry.begin("apply plan"))
    assert not stuck.free.is_set()
    assert (lost.count, export.waiting) == (5000 - otlp.QUEUE, otlp.QUEUE)
    stuck.free.set()
    export.close()
    assert (lost.count, export.waiting) == (5000, 0)


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
    ids=["nothing set", "endpoint", "traces endpoint", "sdk disabled", "exporter none"],
)
def test_the_standard_variables_decide_about_otlp(environ: dict[str, str], wanted: bool) -> None:
    assert setup.wants_otlp(environ) is wanted


@pytest.mark.parametrize(
    ("variable", "text", "told"),
    [
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "5000", "spans"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "-5", "metrics"),
    ],
)
async def test_a_variable_that_the_sdk_refuses_costs_the_sending_and_not_the_service(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    variable: str,
    text: str,
    told: str,
) -> None:
    """A service that ended by it would leave its node without GPUs."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv(variable, text)
    make = functools.partial(setup.service_meters, exposed=True)
    measured = await asyncio.to_thread(make, Role.AGENT, "n1", os.environ)
    async with setup.telemetry(Role.AGENT, "n1", os.environ, measured) as telemetry:
        telemetry.end(telemetry.begin("apply plan"))
        assert otel_meters.PATH in telemetry.meters.pages
    (line,) = logged.lines(caplog, "not sent by OTLP")
    assert line.message.startswith(f"{told} are not sent by OTLP: ")
