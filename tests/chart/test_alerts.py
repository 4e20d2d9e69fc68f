"""Alerts of the chart: what they ask is measured, what they say is a sentence with a page."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
import yaml

from tests.support import promql

ROOT = pathlib.Path(__file__).parents[2]
RULES = ROOT / "deploy" / "chart" / "alerts.yaml"
GROUPS: dict[str, Any] = yaml.safe_load(RULES.read_text(encoding="utf-8"))
ALERTS = {rule["alert"]: rule for group in GROUPS["groups"] for rule in group["rules"]}


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_asks_for_what_there_is(alert: str) -> None:
    """Metrics and labels are those of the catalogue, in its expression and in its words."""
    rule = ALERTS[alert]
    asked = promql.asked(rule["expr"])
    assert asked
    known = {label for name in asked for label in promql.labels(name)}
    for name, labels in asked.items():
        assert labels <= promql.labels(name), name
    for text in rule["annotations"].values():
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= known


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_has_words_and_its_own_page(alert: str) -> None:
    """A sentence, what to do, and the heading of that name in the troubleshooting page."""
    words = ALERTS[alert]["annotations"]
    assert words["summary"]
    assert words["description"].endswith(".")
    page, _, anchor = words["runbook_url"].partition("#")
    assert anchor == alert.lower()
    headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.M)
    assert alert in {heading.strip("` ") for heading in headings}
