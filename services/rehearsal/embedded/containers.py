"""A running pod → what its containers see: slots, devices, mounts, environment. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.domain.slots import device_of, slot_order
from shared.simulation.kube.kubelet.containers import RunningPod


def inside(pod: RunningPod | None, gpus: Mapping[str, str]) -> dict[str, Any]:
    """All containers of a pod taken together; `gpus` maps each device to its physical GPU."""
    parts = list(pod.containers.values()) if pod is not None and not pod.finished else []
    slots = {slot for part in parts for ids in part.slots.values() for slot in ids}
    uuids = {device_of(slot) for slot in slots}
    env: dict[str, str] = {}
    for part in parts:
        env |= part.env
    return {
        "slots": sorted(slots, key=slot_order),
        "gpus": len({gpus.get(uuid, uuid) for uuid in uuids}),
        "uuids": sorted(uuids),
        "env": env,
        "devices": sorted({device.host_path for part in parts for device in part.devices}),
        "mounts": sorted({mount.container_path for part in parts for mount in part.mounts}),
        "cdi": sorted({name for part in parts for name in part.cdi}),
    }
