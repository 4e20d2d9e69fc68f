"""What an OpenTelemetry Collector gets of the story by OTLP, and what becomes of us without it."""

from __future__ import annotations

from typing import Any

import pytest

from shared.telemetry import catalogue
from tests.observe import backends
from tests.observe.recording import LAST_WITH_COLLECTOR, Recording

Json = dict[str, Any]
SERVICES = {f"slicewire-{name}" for name in ("advertiser", "allocator", "agent", "controller")}
PRODUCER, ERROR = 4, 2  # of OTLP's SpanKind and StatusCode
CHANGE_OF_A_LAYOUT = {
    "change config": "controller",
    "resolve config": "controller",
    "publish intent": "controller",
    "plan layout": "agent",
    "publish progress": "agent",
    "prepare node": "controller",
    "publish hold": "agent",
    "send list": "allocator",
    "evict pod": "controller",
    "empty slots": "agent",
    "cut GPU": "agent",
    "destroy instance": "agent",
    "create instance": "agent",
    "change layout": "agent",
    "observe hardware": "advertiser",
    "publish inventory": "advertiser",
    "write labels": "controller",
}


@pytest.fixture(scope="module")
def spans(recording: Recording) -> list[tuple[Json, Json]]:
    """Each span that arrived, with its resource."""
    return list(recording.collector.spans())


@pytest.fixture(scope="module")
def change(spans: list[tuple[Json, Json]]) -> list[tuple[Json, Json]]:
    """Those of the change that cut a GPU anew."""
    traces = {span["traceId"] for _, span in spans if span["name"] == "cut GPU"}
    assert len(traces) == 1
    return [(resource, span) for resource, span in spans if span["traceId"] in traces]


def test_a_change_of_a_layout_is_one_tree_of_all_services(change: list[tuple[Json, Json]]) -> None:
    """One root, no parent that is missing, and nobody begins before the root."""
    by_id = {span["spanId"]: span for _, span in change}
    roots = [span for span in by_id.values() if not span.get("parentSpanId")]
    assert [root["name"] for root in roots] == ["change config"]
    orphans = [span["name"] for span in by_id.values() if span.get("parentSpanId", "") not in by_id]
    assert orphans == ["change config"]
    assert {resource["service.name"] for resource, _ in change} == SERVICES
    found = {span["name"]: resource["service.name"] for resource, span in change}
    assert {name: f"slicewire-{service}" for name, service in CHANGE_OF_A_LAYOUT.items()} == {
        name: found.get(name) for name in CHANGE_OF_A_LAYOUT
    }
    first = min(int(span["startTimeUnixNano"]) for _, span in change)
    assert int(roots[0]["startTimeUnixNano"]) == first


def test_its_end_is_in_it_too(change: list[tuple[Json, Json]]) -> None:
    """The list that showed the new devices to the kubelet, and the label that says success."""
    lists = [backends.attributes(span) for _, span in change if span["name"] == "send list"]
    assert ("nvidia.com/mig-1g.10gb", "4") in [
        (each["slicewire.resource"], each["slicewire.slots"]) for each in lists
    ]
    written = [backends.attributes(span) for _, span in change if span["name"] == "write labels"]
    assert any("state success" in each["slicewire.labels"] for each in written)


def test_parents_are_those_that_caused_it(change: list[tuple[Json, Json]]) -> None:
    """Calls that changed a GPU stand below its cut, an eviction below what asked for it."""
    by_id = {span["spanId"]: span for _, span in change}

    def above(name: str) -> set[str]:
        return {by_id[span["parentSpanId"]]["name"] for _, span in change if span["name"] == name}

    assert above("create instance") == above("destroy instance") == {"cut GPU"}
    assert above("send list") <= {"publish inventory", "publish hold"}
    assert above("publish inventory") == {"apply sharing", "observe hardware"}


def test_attributes_are_named_by_the_conventions(spans: list[tuple[Json, Json]]) -> None:
    """Kubernetes, hardware, messaging; all else has our prefix."""
    for resource, span in spans:
        assert resource["service.version"]
        if resource["service.name"] != "slicewire-controller":
            assert resource["k8s.node.name"] in {"gpu-a", "gpu-b"}
        named = backends.attributes(span)
        known = ("k8s.", "hw.", "messaging.", "slicewire.")
        assert all(name.startswith(known) for name in named), named
        assert (span["kind"] == PRODUCER) == span["name"].startswith("publish ")
        if span["kind"] == PRODUCER:
            assert named["messaging.system"] == "nats"
            assert f"publish {named['messaging.destination.name']}" == span["name"]
    (evicted,) = [backends.attributes(span) for _, span in spans if span["name"] == "evict pod"]
    assert evicted["k8s.namespace.name"] == "default"
    assert evicted["k8s.pod.name"].startswith("infer-1")
    cut = next(backends.attributes(span) for _, span in spans if span["name"] == "cut GPU")
    assert (cut["hw.type"], cut["hw.id"]) == ("gpu", "GPU-bbbbbbbb-0000-4000-8000-000000000000")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("allocate slots", "failRequestsGreaterThanOne"),
        ("resolve config", 'unknown key "replica"'),
        ("plan layout", "too-much"),
    ],
)
def test_what_failed_has_an_error_with_its_sentence(
    spans: list[tuple[Json, Json]], name: str, says: str
) -> None:
    """A backend shows it in red, and says what to do."""
    failed = [span["status"] for _, span in spans if span["name"] == name]
    assert [each for each in failed if each.get("code") == ERROR and says in each["message"]]


def test_an_allocation_is_linked_to_the_change_that_offered_the_slot(
    spans: list[tuple[Json, Json]],
) -> None:
    """It is a trace of its own: the kubelet asked."""
    traces = {span["traceId"] for _, span in spans if span["name"] == "change config"}
    allocations = [span for _, span in spans if span["name"] == "allocate slots"]
    assert len(allocations) >= 6
    for span in allocations:
        assert {link["traceId"] for link in span["links"]} <= traces
        assert span["traceId"] not in traces


def test_metrics_of_all_services_arrive_under_opentelemetry_s_names(recording: Recording) -> None:
    """Of the catalogue, with its units; the holder of a slot as Prometheus knows it."""
    known = {each.name: each for each in catalogue.INSTRUMENTS}
    seen: dict[str, set[str]] = {}
    holders = set()
    for resource, metric in recording.collector.metrics():
        seen.setdefault(metric["name"], set()).add(resource["service.name"])
        assert metric.get("unit", "") == known[metric["name"]].unit
        if metric["name"] == catalogue.HOLDER.name:
            points = metric["gauge"]["dataPoints"]
            holders |= {backends.attributes(point)["pod"] for point in points}
    assert seen[catalogue.BUS_CONNECTED.name] == SERVICES
    wanted = (catalogue.SLOTS, catalogue.NODES, catalogue.GPU_XIDS, catalogue.ALLOCATE_DURATION)
    assert {each.name for each in wanted} <= set(seen)
    assert holders > {"train-1", "train-2", "sleepy", "infer-2"}


def test_without_a_collector_services_go_on_and_count_what_is_lost(recording: Recording) -> None:
    """It ends in the middle of the story: pods get slots as before."""
    prometheus, moments = recording.prometheus, recording.moments
    lost = 'sum(slicewire_dropped_total{what="otlp"})'
    (before,) = prometheus.query(lost, moments[LAST_WITH_COLLECTOR])
    (after,) = prometheus.query(lost, moments["back"])
    assert (before["value"], after["value"] > 0) == (0, True)
    granted = 'sum(slicewire_allocate_duration_seconds_count{outcome="granted"})'
    (then,) = prometheus.query(granted, moments[LAST_WITH_COLLECTOR])
    (now,) = prometheus.query(granted, moments["cut"])
    assert now["value"] > then["value"]
