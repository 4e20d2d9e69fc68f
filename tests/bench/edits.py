"""From a ConfigMap edit to the kubelet's new list: how long, how many messages, registrations."""

from __future__ import annotations

from collections.abc import Mapping

from services.rehearsal.embedded.cluster import Cluster
from shared.runtime import clock
from tests.bench import cluster as clusters
from tests.bench.figures import Figure, percentile

EDITS = 40
PUBLISHED = "an edit is never noticed; a label change 5-10 ms with the resource at 0 meanwhile"


async def measure(cluster: Cluster) -> Mapping[str, Figure]:
    """Edit between 4 and 2 replicas, one edit after the other."""
    await clusters.share(cluster, 4)
    record = cluster.nodes[clusters.NODE].kubelet.record
    registrations, lists = sum(record.registrations.values()), len(record.lists)
    seconds: list[float] = []
    for number in range(EDITS):
        replicas = 2 if number % 2 == 0 else 4
        began = clock.loop_time()
        await clusters.edit(cluster, replicas)
        await clusters.until_listed(cluster, clusters.GPUS * replicas)
        seconds.append(record.lists[-1].at - began)
    return {
        "ConfigMap edit to list, p50": Figure(
            value=round(percentile(seconds, 0.5) * 1e3, 1), unit="ms", published=PUBLISHED
        ),
        "ConfigMap edit to list, p99": Figure(
            value=round(percentile(seconds, 0.99) * 1e3, 1), unit="ms"
        ),
        "lists per edit": Figure(value=(len(record.lists) - lists) / EDITS, unit="messages"),
        "registrations per edit": Figure(
            value=(sum(record.registrations.values()) - registrations) / EDITS,
            unit="registrations",
            published="1 (NVIDIA's plugin re-registers)",
        ),
    }
