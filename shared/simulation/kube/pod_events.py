"""Warning Events about pods, as the kubelet and the scheduler post them; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def warning(
    pod: Mapping[str, Any], reason: str, message: str, now: str, source: Mapping[str, str]
) -> dict[str, Any]:
    """Return the Event; `source` says who tells it (component, and the host it is on)."""
    metadata = pod["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{metadata['name']}.", "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "type": "Warning",
        "reason": reason,
        "message": message,
        "source": dict(source),
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
