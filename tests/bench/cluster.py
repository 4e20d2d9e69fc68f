"""The embedded cluster that figures are taken on: one node of eight GPUs, real services."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator

from services.rehearsal import language
from services.rehearsal.embedded import acts
from services.rehearsal.embedded.cluster import Cluster, opened
from services.rehearsal.story import ConfigMap
from tests.support.eventually import eventually

NODE = "bench"
GPUS = 8
RESOURCE = "nvidia.com/gpu"


def text(replicas: int) -> str:
    """A sharing text; 1 is whole GPUs."""
    entry = {"name": RESOURCE, "replicas": replicas}
    return json.dumps({"version": "v1", "sharing": {"timeSlicing": {"resources": [entry]}}})


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Cluster]:
    """Run the cluster, unshared at first."""
    story = language.read(
        json.dumps(
            {
                "nodes": [{"name": NODE, "gpus": ["a100-80gb"] * GPUS}],
                "configMaps": {"sharing": {"any": text(1)}},
                "steps": [{"expect": {"node": NODE, "allocatable": {RESOURCE: GPUS}}}],
            }
        ),
        "bench",
    )
    async with opened(story) as cluster:
        cluster.keep = bool(cluster.troubles)
        await until_listed(cluster, GPUS)
        yield cluster


async def share(cluster: Cluster, replicas: int) -> None:
    """Edit the ConfigMap, and wait until the kubelet has the new list."""
    await edit(cluster, replicas)
    await until_listed(cluster, GPUS * replicas)


async def edit(cluster: Cluster, replicas: int) -> None:
    """Edit the ConfigMap."""
    await acts.act(cluster, ConfigMap(name="sharing", data={"any": text(replicas)}))


async def until_listed(cluster: Cluster, slots: int) -> None:
    """Wait for a ListAndWatch message with this many slots."""
    lists = cluster.nodes[NODE].kubelet.record.lists
    await eventually(lambda: lists and len(lists[-1].devices) == slots, within=20)
