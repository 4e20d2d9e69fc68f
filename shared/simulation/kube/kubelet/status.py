"""The status tick: what the node object says of the kubelet's devices, and only then.

There is no push: whatever a plugin says, the node object says it at the next tick.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from shared.runtime import clock
from shared.simulation.kube import api_client, paths
from shared.simulation.kube.kubelet import device_manager, record

# What every simulated node has besides devices: enough for any rehearsal's pods.
MACHINE: Final = {"cpu": "64", "memory": "512Gi", "pods": "250", "ephemeral-storage": "1Ti"}


async def register_node(api: api_client.ApiClient, name: str, labels: Mapping[str, str]) -> None:
    """Create the node object unless it stands already; then it keeps its labels."""
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
    }
    try:
        await api.create(paths.NODES, body)
    except api_client.ApiRefusedError as refused:
        if refused.reason != "AlreadyExists":
            raise


class StatusTick:
    """Reports one node's counts at each tick, if they changed since the last one."""

    def __init__(
        self,
        api: api_client.ApiClient,
        node: str,
        manager: device_manager.DeviceManager,
        seen: record.Record,
        period: float,
    ) -> None:
        self._api = api
        self._node = node
        self._manager = manager
        self._seen = seen
        self._period = period
        self._sent: dict[str, Any] = {}

    async def run(self) -> None:
        """Tick for ever, first at once."""
        while True:
            status = node_status(self._manager.counts(clock.loop_time()))
            if status != self._sent:
                await self._send(status)
            await clock.sleep(self._period)

    async def _send(self, status: dict[str, Any]) -> None:
        await self._api.patch(f"{paths.node(self._node)}/status", {"status": status})
        self._sent = status
        self._seen.statuses.append(status)


def node_status(counts: Mapping[str, device_manager.Count]) -> dict[str, Any]:
    """Say counts as a node's status does: in quantities, ready."""
    capacity = {name: str(count.capacity) for name, count in sorted(counts.items())}
    allocatable = {name: str(count.allocatable) for name, count in sorted(counts.items())}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
    }
    return {
        "capacity": MACHINE | capacity,
        "allocatable": MACHINE | allocatable,
        "conditions": [ready],
    }
