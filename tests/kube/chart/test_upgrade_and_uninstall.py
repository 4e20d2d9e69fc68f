"""Install, use, upgrade, uninstall: the whole of it on a real Kubernetes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from shared.contract import names
from tests.kube import ours
from tests.kube.chart import release as releases
from tests.kube.chart.release import NAMESPACE, RELEASE, Release
from tests.kube.real_kubelet import RealNode
from tests.support.eventually import eventually


@pytest.fixture
async def release(node: RealNode) -> AsyncIterator[Release]:
    """A release on simulated GPUs."""
    async with releases.installed(node) as installed:
        yield installed


async def test_a_release_from_its_first_slot_to_its_last_trace(release: Release) -> None:
    """Every part enters the bus by its pod's token; slots, pods, edits, MIG, upgrade, uninstall."""
    node = release.node
    await node.until_counts((8, 8))
    assert await free_slots(release) == 8
    await ours.run(node, "a")
    inside = await node.inside("a")
    assert inside.environment["NVIDIA_VISIBLE_DEVICES"].startswith("GPU-")
    assert {"/dev/nvidiactl", "/dev/nvidia-uvm"} < inside.devices

    await release.share(ours.text(6))
    await node.until_counts((12, 12))

    await release.upgrade(allocator={"resources": {"requests": {"cpu": "25m"}}})
    await node.until_counts((8, 8))  # the values' text again
    await release.share(ours.text(5))
    await node.until_counts((10, 10))
    await ours.run(node, "b")
    assert await ours.restarts(node, "a", "b") == [0, 0]

    await node.delete("a", grace=0)
    await node.delete("b", grace=0)
    await release.label(mig_config="all-1g.10gb")
    await eventually(lambda: labelled(release, names.MIG_STATE_LABEL, "success"), within=60)

    await release.helm("uninstall", RELEASE, "--wait", "--timeout", releases.PATIENCE)
    after = await release.metadata()
    assert not [name for name in after["annotations"] if name.startswith(names.ANNOTATIONS)]
    assert names.PRODUCT_LABEL not in after["labels"]
    assert names.MIG_STATE_LABEL not in after["labels"]
    left = await asyncio.to_thread(
        node.cluster.kubectl, "get", "all", "--namespace", NAMESPACE, "--output", "name"
    )
    assert left.split() == []


async def free_slots(release: Release) -> int:
    """Slots that `slicewire status` calls free."""
    return sum(int(gpu["slots"]["free"]) for gpu in (await release.status())["gpus"])


async def labelled(release: Release, name: str, text: str) -> bool:
    """Whether the node has this label."""
    labels: dict[str, Any] = (await release.metadata())["labels"]
    return labels.get(name) == text
