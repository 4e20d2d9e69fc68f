"""`kubectl get nodes` and `slicewire status` have to say the same of every slot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.kube.cluster import Cluster
from tests.kube.processes import ClusterError
from tests.support.eventually import eventually

DOMAIN = "nvidia.com/"
Counts = Mapping[str, Mapping[str, tuple[int, int]]]  # node → resource → capacity, allocatable
Status = Callable[[], Awaitable[Mapping[str, Any]]]


async def agreed(cluster: Cluster, status: Status, within: float) -> None:
    """Wait until both say the same; the kubelet writes its node object at its own tick only."""
    seen: list[Counts] = [{}, {}]

    async def same() -> bool:
        try:
            seen[:] = [await _by_kubectl(cluster), by_status(await status())]
        except ClusterError:  # somebody to ask has just been restarted
            return False
        return seen[0] == seen[1]

    try:
        await eventually(same, within=within, every=0.2)
    except AssertionError:
        raise AssertionError(f"kubectl says {seen[0]}, slicewire status {seen[1]}") from None


def by_status(said: Mapping[str, Any]) -> Counts:
    """What the kubelet is shown: all slots but retiring ones, of which sick ones are no offer."""
    return {
        node["name"]: _some(
            {
                resource: (
                    slots["total"] - slots["retiring"],
                    slots["total"] - slots["retiring"] - slots["unhealthy"],
                )
                for resource, slots in node["resources"].items()
            }
        )
        for node in said["nodes"]
    }


async def _by_kubectl(cluster: Cluster) -> Counts:
    said = await asyncio.to_thread(cluster.kubectl, "get", "nodes", "--output", "json")
    return {
        item["metadata"]["name"]: _some(
            {
                resource: (int(count), int(item["status"]["allocatable"][resource]))
                for resource, count in item["status"]["capacity"].items()
                if resource.startswith(DOMAIN)
            }
        )
        for item in json.loads(said)["items"]
    }


def _some(counts: Mapping[str, tuple[int, int]]) -> Mapping[str, tuple[int, int]]:
    """Leave out what there is none of: a kubelet remembers names, a ledger does not."""
    return {resource: pair for resource, pair in counts.items() if pair != (0, 0)}
