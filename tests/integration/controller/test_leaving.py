"""What an uninstall leaves on nodes: nothing of ours, and everything of others."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from services.commands import cleanup
from services.reconfigurer.controller import conditions, kube, leaving
from services.reconfigurer.controller.snapshot import Snapshot
from shared.contract import names
from tests.integration.controller.cluster import Cluster, running

OURS = {
    names.GENERATION_ANNOTATION: "1.2",
    names.LABELS_GENERATION_ANNOTATION: "1.2",
    names.MIG_GENERATION_ANNOTATION: "1.2",
    names.CORDON_ANNOTATION: "1.2",
    names.PAUSED_ANNOTATION: json.dumps({"nvidia.com/gpu.deploy.dcgm": "true"}),
}
WRITTEN = {
    names.PRODUCT_LABEL: "NVIDIA-A100-SXM4-80GB-SHARED",
    names.REPLICAS_LABEL: "4",
    names.MIG_STATE_LABEL: "success",
    "nvidia.com/gpu.deploy.dcgm": names.PAUSED,
}
CHOSEN = {names.CONFIG_LABEL: "any", names.MIG_CONFIG_LABEL: "all-balanced", "team": "vision"}


def node(**changed: Any) -> Snapshot:
    """A node in the middle of a change."""
    given: dict[str, Any] = {
        "labels": WRITTEN | CHOSEN,
        "annotations": OURS | {"theirs": "x"},
        "unschedulable": True,
        "cordon_manager": kube.AGENT,
    }
    return Snapshot(name="gpu-a", **given | changed)


def test_everything_of_ours_goes_and_components_come_back() -> None:
    """Labels, annotations and the cordon; what people chose stays."""
    patch = leaving.without_us(node())
    assert patch.unschedulable is False
    assert patch.labels == {
        names.PRODUCT_LABEL: None,
        names.REPLICAS_LABEL: None,
        names.MIG_STATE_LABEL: None,
        "nvidia.com/gpu.deploy.dcgm": "true",
    }
    assert patch.annotations == dict.fromkeys(OURS)


def test_labels_of_a_node_that_we_never_labelled_are_not_ours() -> None:
    """GPU Feature Discovery writes the same names."""
    patch = leaving.without_us(node(annotations={names.GENERATION_ANNOTATION: "1.2"}))
    assert patch.labels == {}
    assert patch.unschedulable is None


def test_a_cordon_that_somebody_has_touched_stays() -> None:
    """An administrator's decision outlives us."""
    assert leaving.without_us(node(cordon_manager="kubectl")).unschedulable is None


def test_a_node_without_anything_of_ours_is_left_alone() -> None:
    """No patch at all."""
    assert not leaving.without_us(Snapshot(name="cpu", labels=CHOSEN))


async def test_the_command_cleans_every_node_and_may_run_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Conditions too; the second time there is nothing left."""
    async with running() as cluster:
        await prepare(cluster)
        for _ in range(2):
            assert await asyncio.to_thread(cleanup.main, ["--api-url", cluster.url]) == 0
        after = await cluster.api.call("GET", "/api/v1/nodes/gpu-a")
    assert after["metadata"]["labels"] == CHOSEN
    assert after["metadata"].get("annotations") in ({}, None)
    kinds = [each["type"] for each in after["status"].get("conditions", [])]
    assert names.CONFIGURED_CONDITION not in kinds
    assert "Ready" in kinds
    first, second = capsys.readouterr().out.splitlines()
    assert first == "cleaned: gpu-a"
    assert second == "cleaned: nothing of slicewire was on any node"


async def prepare(cluster: Cluster) -> None:
    """A node with labels, annotations and a condition of ours, and one of the kubelet's."""
    cluster.add_node("cpu")
    cluster.add_node("gpu-a", CHOSEN | {names.PRODUCT_LABEL: "X"})
    shall = conditions.Condition(names.CONFIGURED_CONDITION, "True", "ConfigApplied", "")
    ready = {"type": "Ready", "status": "True"}
    marks = {names.CONDITIONS_ANNOTATION: conditions.marks((shall,))}
    told = [*conditions.patch({}, (shall,), "2026-01-01T00:00:00Z"), ready]
    await cluster.patch_node("gpu-a", annotations={names.LABELS_GENERATION_ANNOTATION: "1"} | marks)
    await cluster.api.call(
        "PATCH",
        "/api/v1/nodes/gpu-a/status",
        body={"status": {"conditions": told}},
        content=kube.STRATEGIC_PATCH,
    )
