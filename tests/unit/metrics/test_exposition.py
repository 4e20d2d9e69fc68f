"""Real instruments of the SDK, read as Prometheus and an OTLP receiver read them."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
)

from shared.contract.table import Role
from shared.telemetry import catalogue, otel_meters, setup
from shared.telemetry.catalogue import Sample
from tests.support import scraping
from tests.support.scraping import Read


@pytest.fixture
def meters() -> Iterator[otel_meters.OtelMeters]:
    """Those of an allocator."""
    made = otel_meters.OtelMeters(Role.ALLOCATOR, "node-a", exposed=True)
    yield made
    made.close()


def read(meters: otel_meters.OtelMeters) -> Read:
    """What Prometheus' own parser finds."""
    return scraping.parse(meters.text().decode())


def holder(pod: str, value: float = 1) -> Sample:
    return catalogue.HOLDER.at(
        value,
        namespace="default",
        pod=pod,
        container="main",
        uuid="GPU-a",
        parent="GPU-a",
        slot="GPU-a::0",
        resource="nvidia.com/gpu",
    )


def pods(found: Read) -> list[str]:
    return sorted(dict(labels)["pod"] for labels in found.get("slicewire_holder", {}))


def test_names_and_labels_are_those_of_the_table(meters: otel_meters.OtelMeters) -> None:
    """Counter, histogram and gauge; every series of a node says which."""
    meters.count(catalogue.REGISTRATIONS, resource="nvidia.com/gpu")
    meters.time(catalogue.ALLOCATE_DURATION, 0.002, resource="nvidia.com/gpu", outcome="granted")
    meters.show(lambda: [holder("p1"), catalogue.BUS_RECONNECTS.at(3)])
    found = read(meters)
    node = ("node", "node-a")
    assert found["slicewire_registrations_total"] == {(node, ("resource", "nvidia.com/gpu")): 1}
    assert found["slicewire_bus_reconnects_total"] == {(node, ("service", "allocator")): 3}
    assert pods(found) == ["p1"]
    assert all(node in labels for series in found.values() for labels in series)
    buckets = found["slicewire_allocate_duration_seconds_bucket"]
    bounds = sorted(float(dict(labels)["le"]) for labels in buckets)
    assert tuple(bounds[:-1]) == catalogue.ALLOCATE_DURATION.buckets
    assert sum(buckets.values()) == len(bounds) - 2  # 2 ms: in all but the two smallest


def test_a_share_of_one_is_called_ratio() -> None:
    """The exporter for Prometheus leaves the unit 1 out of names; the table does not."""
    meters = otel_meters.OtelMeters(Role.ADVERTISER, "node-a", exposed=True)
    labels = {"uuid": "GPU-a", "index": "0", "model": "m", "shared": "true", "holders": "2"}
    meters.show(lambda: [catalogue.GPU_UTILIZATION.at(0.25, **labels)])
    assert list(read(meters)["slicewire_gpu_utilization_ratio"].values()) == [0.25]
    meters.close()


def test_what_a_source_no_longer_shows_is_gone_with_the_next_scrape(
    meters: otel_meters.OtelMeters,
) -> None:
    now = ["p1", "p2"]
    meters.show(lambda: [holder(pod) for pod in tuple(now)])
    assert pods(read(meters)) == ["p1", "p2"]
    now.remove("p1")
    assert pods(read(meters)) == ["p2"]


def test_pods_that_come_and_go_for_years_are_never_folded_into_one(
    meters: otel_meters.OtelMeters,
) -> None:
    """The SDK folds the series of an observable instrument into one from 2,000 label sets on."""
    now = ["p0"]
    meters.show(lambda: [holder(now[0])])
    for number in range(2100):
        now[0] = f"p{number}"
        meters.text()
    assert pods(read(meters)) == ["p2099"]


def test_values_that_would_break_the_text_come_back_as_they_were(
    meters: otel_meters.OtelMeters,
) -> None:
    odd = 'a"b\\c\nd'
    meters.show(lambda: [holder(odd)])
    assert pods(read(meters)) == [odd]


def test_a_source_that_fails_takes_no_other_with_it(
    meters: otel_meters.OtelMeters, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Iterator[Sample]:
        yield holder("half")
        raise KeyError("a mistake")

    meters.show(broken)
    meters.show(lambda: [holder("p1")])
    assert pods(read(meters)) == ["p1"]
    assert "a source of metrics failed" in caplog.text


def test_a_source_that_is_hidden_again_shows_nothing(meters: otel_meters.OtelMeters) -> None:
    """A leader's term ends, and with it what it said of the nodes."""
    hide = meters.show(lambda: [holder("p1")])
    hide()
    assert pods(read(meters)) == []


def test_a_label_that_the_table_does_not_have_is_a_mistake_that_shows(
    meters: otel_meters.OtelMeters,
) -> None:
    with pytest.raises(ValueError, match="has the labels resource, not pod, resource"):
        meters.count(catalogue.LISTS, resource="r", pod="p")


class Receiver(MetricExporter):
    """Takes readings, or refuses them."""

    def __init__(self, *, takes: bool) -> None:
        super().__init__()
        self.takes = takes
        self.got: list[MetricsData] = []
        self.asked = threading.Event()

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: object
    ) -> MetricExportResult:
        self.got.append(metrics_data)
        self.asked.set()
        return MetricExportResult.SUCCESS if self.takes else MetricExportResult.FAILURE

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: object) -> None:
        """Nothing is open."""


def test_a_word_of_an_enum_and_its_text_are_one_series(meters: otel_meters.OtelMeters) -> None:
    """The SDK tells values of different types apart, and a scrape would find the series twice."""
    for resource in (Role.AGENT, "agent"):
        meters.count(catalogue.LISTS, resource=resource)
    assert list(read(meters)["slicewire_lists_total"].values()) == [2]


def test_otlp_gets_the_same_series_under_opentelemetrys_names() -> None:
    receiver = Receiver(takes=True)
    meters = otel_meters.OtelMeters(Role.ALLOCATOR, "node-a", exposed=False, exporter=receiver)
    meters.count(catalogue.LISTS, resource="nvidia.com/gpu")
    meters.show(lambda: [holder("p1")])
    meters.close()
    (resource,) = receiver.got[-1].resource_metrics
    assert resource.resource.attributes["service.name"] == "slicewire-allocator"
    assert resource.resource.attributes["k8s.node.name"] == "node-a"
    sent = {each.name: each for scope in resource.scope_metrics for each in scope.metrics}
    ((encoded,),) = (
        each.scope_metrics for each in encode_metrics(receiver.got[-1]).resource_metrics
    )
    assert {each.name for each in encoded.metrics} == sent.keys()
    assert {"slicewire.build.info", "slicewire.lists", "slicewire.holder"} <= sent.keys()
    (point,) = sent["slicewire.holder"].data.data_points
    assert isinstance(point, NumberDataPoint)
    assert (point.attributes or {})["pod"] == "p1"
    assert meters.pages == {}


def test_a_reading_that_the_receiver_does_not_take_is_counted() -> None:
    receiver = Receiver(takes=False)
    meters = otel_meters.OtelMeters(Role.AGENT, "node-a", exposed=True, exporter=receiver)
    (labels,) = read(meters)["slicewire_dropped_total"]
    assert dict(labels) == {"node": "node-a", "service": "agent", "what": "otlp"}
    meters.close()
    assert meters.lost.count == 1


@pytest.mark.parametrize(
    ("exposed", "environ", "kept", "pages"),
    [
        (False, {}, False, False),
        (True, {}, True, True),
        (True, {"OTEL_SDK_DISABLED": "true"}, False, False),
        (False, {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:9"}, True, False),
        (False, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9"}, False, False),
        (
            False,
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_METRICS_EXPORTER": "none"},
            False,
            False,
        ),
    ],
    ids=["nobody", "scraped", "SDK off", "sent", "only traces sent", "metrics not sent"],
)
def test_the_sdk_keeps_what_is_measured_only_where_somebody_reads_it(
    exposed: bool,
    environ: dict[str, str],
    kept: bool,
    pages: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in environ.items():
        monkeypatch.setenv(name, text)
    made = setup.service_meters(Role.AGENT, "n1", environ, exposed=exposed)
    assert isinstance(made, otel_meters.OtelMeters) is kept
    assert bool(made.pages) is pages


@pytest.mark.parametrize(
    "module",
    [
        "services.advertiser.__main__",
        "services.allocator.__main__",
        "services.reconfigurer.agent.__main__",
        "services.reconfigurer.controller.__main__",
    ],
)
def test_a_service_that_nobody_reads_does_not_load_the_sdk(module: str) -> None:
    code = f"import sys, {module}; print([name for name in sys.modules if 'opentelemetry' in name])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
