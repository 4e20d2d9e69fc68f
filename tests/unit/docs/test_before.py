"""The page for who decides whether to install: models, labels, numbers are those of the code."""

from __future__ import annotations

import pathlib
import re

import yaml

from shared.sharing import labels
from shared.simulation.gpu import catalogue

ROOT = pathlib.Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "before.md").read_text(encoding="utf-8")
VALUES = yaml.safe_load((ROOT / "deploy/chart/values.yaml").read_text(encoding="utf-8"))


def test_all_models_of_the_catalogue_are_named() -> None:
    """Those that `plan` and rehearsals know."""
    (row,) = re.findall(r"^\| for `slicewire plan`.*", PAGE, re.M)
    assert set(re.findall(r"`([a-z0-9-]+)`", row)) == set(catalogue.models())


def test_labels_that_are_written_are_not_called_missing() -> None:
    """Pods may select nodes by one that is not written, so the page names these."""
    named = set(re.findall(r"`(nvidia\.com/(?:gpu|gfd|vgpu|mig|mps)\.[a-z]+)", PAGE))
    assert len(named) >= 4
    assert named & labels.ours(()) == set()


def test_the_oldest_kubernetes_is_that_of_the_chart() -> None:
    """And the bus is the one that it starts."""
    chart = yaml.safe_load((ROOT / "deploy/chart/Chart.yaml").read_text(encoding="utf-8"))
    oldest = re.search(r"1\.\d+", chart["kubeVersion"])
    assert oldest is not None
    assert f"| Kubernetes | {oldest[0]} or newer" in PAGE
    image = VALUES["bus"]["image"]
    assert f"`{image['repository']}:{image['tag']}`" in PAGE


def test_memory_and_time_that_are_asked_for_are_those_of_the_values() -> None:
    """By the row's first word, as the values call the part."""
    table = PAGE.partition("## What it takes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\w+), (.*)\|", table, re.M)
    assert len(rows) == 5
    for row in rows:
        part = VALUES["bus" if row[0] == "NATS" else row[0]]["resources"]
        asked, limit = part["requests"], part["limits"]["memory"]
        cells = [cell.strip().replace(" ", "") for cell in row[1].split("|")]
        assert cells[2] == f"{asked['memory']}B,{asked['cpu']}", row
        assert cells[3] == f"{limit}B", row
