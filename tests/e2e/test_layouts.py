"""What a story cannot look at: which calls a GPU got, and what came before what."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.rehearsal import language
from services.rehearsal.embedded import acts
from services.rehearsal.embedded import cluster as clusters
from services.rehearsal.embedded.cluster import Cluster
from services.rehearsal.story import Label
from shared.contract import names
from tests.support.eventually import eventually

NODE = "gpu-a.lan"
GPU = "nvidia.com/gpu"
STORY = f"""\
nodes:
  - name: {NODE}
    gpus: [a100-80gb, {{model: a100-80gb, profileIds: {{1g.10gb: 30}}}}]
configMaps:
  sharing: {{any: "{{version: v1, flags: {{migStrategy: mixed}}}}"}}
  mig:
    config.yaml: |-
      version: v1
      mig-configs:
        too-much: [{{devices: all, mig-enabled: true, mig-devices: {{4g.40gb: 2}}}}]
        one-of-two: [{{devices: [1], mig-enabled: true, mig-devices: {{1g.10gb: 4}}}}]
steps:
  - expect: {{node: {NODE}, allocatable: {{{GPU}: 2}}, within: 30s}}
"""


async def want(cluster: Cluster, layout: str) -> None:
    """Label the node."""
    await acts.act(cluster, Label(node=NODE, labels={names.MIG_CONFIG_LABEL: layout}))


def labels(cluster: Cluster) -> dict[str, str]:
    """Those of the node."""
    found: dict[str, str] = (cluster.api.store.get("nodes", "", NODE) or {})["metadata"]["labels"]
    return found


def healthy(cluster: Cluster, resource: str) -> tuple[str, ...]:
    """What the kubelet was last told of a resource: the ids that it may hand out."""
    lists = [each for each in cluster.nodes[NODE].kubelet.record.lists if each.resource == resource]
    return lists[-1].healthy if lists else ()


async def writes(cluster: Cluster) -> dict[str, Any]:
    """Writing calls by GPU index and symbol."""
    found: dict[str, Any] = (await hardware(cluster))["writes"]
    return found


async def hardware(cluster: Cluster) -> dict[str, Any]:
    """The node's GPUs, and the writing calls that they got."""
    return await cluster.nodes[NODE].hardware.describe()


@pytest.mark.timeout(120)
async def test_calls_and_order_of_a_change() -> None:
    """Nothing is written for what cannot be, nothing to other GPUs, nothing before its time."""
    story = await asyncio.to_thread(language.read, STORY, "s.yaml")
    async with clusters.opened(story) as cluster:
        cluster.keep = False
        await eventually(lambda: len(healthy(cluster, GPU)) == 2, within=20)

        # U057: refused before anything is touched
        await want(cluster, "too-much")
        await eventually(lambda: labels(cluster).get(names.MIG_STATE_LABEL) == "failed", within=20)
        assert await writes(cluster) == {}

        # U065: the GPU is off the list before its mode is asked for
        await want(cluster, "one-of-two")
        first, second = (each["uuid"] for each in (await hardware(cluster))["gpus"])
        await eventually(lambda: writes(cluster), within=30)
        assert healthy(cluster, GPU) == (first,)

        # U107: then the instances, then the kubelet's list, then the labels
        count = "nvidia.com/mig-1g.10gb.count"
        await eventually(lambda: labels(cluster).get(count) == "4", within=30)
        assert len(healthy(cluster, "nvidia.com/mig-1g.10gb")) == 4

        # U055: with its own profile ids, and with no call to the other GPU
        await eventually(lambda: labels(cluster)[names.MIG_STATE_LABEL] == "success", within=30)
        found = await hardware(cluster)
        assert found["writes"].keys() == {"1"}
        assert [len(each["instances"]) for each in found["gpus"]] == [0, 4]
        assert found["gpus"][1]["uuid"] == second
        assert cluster.nodes[NODE].kubelet.record.rejections == []
