"""Where the counts stood when a step last acted: what is counted since then is the difference."""

from __future__ import annotations

from dataclasses import dataclass

from services.rehearsal.embedded.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Baseline:
    """Counts by node, and requests to the API server that are not the stand-ins'."""

    rejections: dict[str, int]
    lists: dict[str, int]
    requests: int


def take(cluster: Cluster) -> Baseline:
    """Read all counts now."""
    records = {name: node.kubelet.record for name, node in cluster.nodes.items()}
    return Baseline(
        rejections={name: len(record.rejections) for name, record in records.items()},
        lists={name: len(record.lists) for name, record in records.items()},
        requests=cluster.requests,
    )
