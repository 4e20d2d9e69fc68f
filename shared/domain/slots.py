"""Slot ids and holders: `<UUID>::<k>` is replica k of a shared device, `<UUID>` a whole one.

The ids are NVIDIA's, so pods and exporters that parse them keep working.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

SEPARATOR = "::"
_REPLICA = re.compile("[0-9]{1,9}")
_LEGACY = re.compile(r"MIG-(?P<gpu>GPU-[^/]+)/(?P<gi>\d+)/(?P<ci>\d+)")


def slot_id(uuid: str, replica: int) -> str:
    """Name replica `replica` (from 0) of the device `uuid`."""
    return f"{uuid}{SEPARATOR}{replica}"


def device_of(slot: str) -> str:
    """Return the device UUID that a slot stands on; a whole device's slot is its UUID."""
    return slot.partition(SEPARATOR)[0]


def replica_of(slot: str) -> int | None:
    """Return the replica number of a shared slot, None for a whole device's slot.

    None also for what another plugin makes of a UUID: what is no number of ours may be the whole
    device.
    """
    _, _, replica = slot.partition(SEPARATOR)
    return int(replica) if _REPLICA.fullmatch(replica) else None


def legacy_instance(device: str) -> tuple[str, int, int] | None:
    """GPU UUID, GPU and compute instance of a MIG device named as drivers before R470 did.

    None for any other name: `MIG-<uuid>` says nothing of its GPU.
    """
    match = _LEGACY.fullmatch(device)
    return (match["gpu"], int(match["gi"]), int(match["ci"])) if match else None


def slot_order(slot: str) -> tuple[str, int, str]:
    """Sort key: by device, then by replica number (not by its digits), then by the rest."""
    replica = replica_of(slot)
    return device_of(slot), -1 if replica is None else replica, slot


class SlotState(enum.StrEnum):
    """Each slot counts once, by the first that is true, in this order."""

    LOST = "lost"  # its device is gone; outside the total
    RETIRING = "retiring"  # has a holder, beyond the wanted count; not listed to the kubelet
    HELD = "held"
    GRANTED = "granted"  # handed out, pod not known yet
    UNHEALTHY = "unhealthy"  # device sick or slot withheld, no holder
    FREE = "free"


@dataclass(frozen=True, slots=True, order=True)
class Holder:
    """The container that holds a slot, as the kubelet names it."""

    namespace: str
    pod: str
    container: str

    @property
    def pod_key(self) -> str:
        """`namespace/pod`, the form that people type."""
        return f"{self.namespace}/{self.pod}"
