"""Dashboards and alerts as a release brings them to Grafana and to the Prometheus Operator."""

from __future__ import annotations

import json
from typing import Any

from deploy.dashboards import __main__ as dashboards
from tests.chart.rendered.helm import Json, of_kind, rendered
from tests.chart.test_alerts import GROUPS

SIDECAR = {"grafana_dashboard": "1"}


def shown(objects: list[Json]) -> dict[str, Json]:
    """ConfigMaps that Grafana's sidecar would load, by name."""
    return {
        name: each
        for name, each in of_kind(objects, "ConfigMap").items()
        if each["metadata"]["labels"].items() >= SIDECAR.items()
    }


def test_every_dashboard_comes_as_it_was_written() -> None:
    """Braces of Grafana's and Prometheus' own survive helm."""
    found: dict[str, Any] = {}
    for each in shown(rendered()).values():
        found |= each["data"]
    wanted = {
        f"slicewire-{path.name}": json.loads(path.read_text(encoding="utf-8"))
        for path in dashboards.FOLDER.glob("*.json")
    }
    assert len(wanted) == len(dashboards.PAGES)
    assert {name: json.loads(text) for name, text in found.items()} == wanted


def test_the_sidecar_finds_them_where_it_looks() -> None:
    """Namespace, label and folder are the values'."""
    given = {
        "namespace": "monitoring",
        "labels": {"grafana_dashboard": "1", "team": "gpu"},
        "annotations": {"grafana_folder": "GPUs"},
    }
    for each in shown(rendered({"dashboards": given})).values():
        assert each["metadata"]["namespace"] == "monitoring"
        assert each["metadata"]["labels"]["team"] == "gpu"
        assert each["metadata"]["annotations"] == {"grafana_folder": "GPUs"}


def test_without_dashboards_and_alerts_there_are_none() -> None:
    """And by default no object of the operator, which may not be installed."""
    assert not shown(rendered({"dashboards": {"enabled": False}}))
    assert not of_kind(rendered(), "PrometheusRule")


def test_alerts_are_the_file_s() -> None:
    """Expressions and templates survive helm."""
    rules = of_kind(rendered({"alerts": {"enabled": True}}), "PrometheusRule")
    assert rules["slicewire"]["spec"] == GROUPS


def test_links_of_alerts_lead_to_where_the_docs_are() -> None:
    """And the operator finds them by the label that it selects."""
    given = {
        "enabled": True,
        "namespace": "monitoring",
        "labels": {"release": "prometheus"},
        "docs": "https://wiki.example/gpu/",
    }
    (rule,) = of_kind(rendered({"alerts": given}), "PrometheusRule").values()
    assert rule["metadata"]["namespace"] == "monitoring"
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    links = [each["annotations"]["runbook_url"] for each in rule["spec"]["groups"][0]["rules"]]
    assert all(
        link.startswith("https://wiki.example/gpu/troubleshooting.md#slicewire") for link in links
    )
