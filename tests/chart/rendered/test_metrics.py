"""Metrics in the chart: who serves them, who finds them, who is let in."""

from __future__ import annotations

import pytest

from tests.chart.rendered.helm import (
    Json,
    RefusedError,
    environment,
    of_kind,
    pods,
    rendered,
)

SERVICES = {f"slicewire-{part}" for part in ("advertiser", "allocator", "agent", "controller")}
OFF = {"metrics": {"enabled": False}}
OPERATOR = {
    "metrics": {
        "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "interval": "15s"}
    }
}


def served(objects: list[Json]) -> dict[str, str]:
    """What each service is told about metrics."""
    return {
        name: environment(template["spec"]["containers"][0])["SLICEWIRE_METRICS"]
        for name, template in pods(objects)
        if name in SERVICES
    }


def annotated(objects: list[Json]) -> dict[str, dict[str, str]]:
    """What annotations tell Prometheus of each pod, where they tell it something."""
    told = {
        name: template["metadata"].get("annotations", {}).items()
        for name, template in pods(objects)
    }
    ours = {
        name: {key: text for key, text in found if key.startswith("prometheus.io/")}
        for name, found in told.items()
    }
    return {name: found for name, found in ours.items() if found}


def let_in(objects: list[Json], policy: str) -> list[Json]:
    """Who may reach the pods of a policy, and where."""
    rules: list[Json] = of_kind(objects, "NetworkPolicy")[policy]["spec"].get("ingress", [])
    return rules


def test_every_service_is_found_by_its_annotations_and_no_other_pod() -> None:
    found = annotated(rendered({"simulation": {"enabled": True}}))
    assert found.keys() == SERVICES
    for told in found.values():
        assert told == {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": "8081",
            "prometheus.io/path": "/metrics",
        }


def test_with_the_operator_a_pod_monitor_finds_them_and_annotations_do_not() -> None:
    """A pod that both find would be read twice. Our labels win over those of the pod's own."""
    objects = rendered(OPERATOR)
    assert annotated(objects) == {}
    monitor = of_kind(objects, "PodMonitor")["slicewire"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    selector = monitor["spec"]["selector"]
    (expression,) = selector["matchExpressions"]
    selected = {
        name
        for name, template in pods(objects)
        if selector["matchLabels"].items() <= template["metadata"]["labels"].items()
        and template["metadata"]["labels"][expression["key"]] in expression["values"]
    }
    assert selected == SERVICES
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint == {
        "port": "health",
        "path": "/metrics",
        "honorLabels": True,
        "interval": "15s",
    }
    for name, template in pods(objects):
        if name in SERVICES:
            ports = template["spec"]["containers"][0]["ports"]
            assert [port["name"] for port in ports] == ["health"]


@pytest.mark.parametrize("policy", ["slicewire-nodes", "slicewire-controller"])
def test_the_scraper_is_let_in_to_that_port_alone(policy: str) -> None:
    prometheus = {"podSelector": {"matchLabels": {"app": "prometheus"}}}
    port = [{"port": "health", "protocol": "TCP"}]
    anybody = {"from": [{"namespaceSelector": {}}], "ports": port}
    assert let_in(rendered(), policy) == [anybody]
    chosen = rendered({"metrics": {"scrapers": [prometheus]}})
    assert let_in(chosen, policy) == [{"from": [prometheus], "ports": port}]


def test_switched_off_nobody_serves_finds_or_reaches_them() -> None:
    on, off = rendered(), rendered(OFF)
    assert set(served(on).values()) == {"true"}
    assert served(off) == dict.fromkeys(SERVICES, "false")
    assert annotated(off) == {}
    assert let_in(off, "slicewire-nodes") == let_in(off, "slicewire-controller") == []


def test_a_pod_monitor_of_nothing_is_refused() -> None:
    with pytest.raises(RefusedError, match="podMonitor"):
        rendered({"metrics": {"enabled": False, "podMonitor": {"enabled": True}}})
