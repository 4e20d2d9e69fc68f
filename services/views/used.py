"""What the advertiser measured of a node's devices → the `used` keys of `status`. Pure.

Null stands for what nobody has measured; nothing is made up for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared.contract.messages import Inventory
from shared.contract.usage import DeviceUse, Usage
from shared.domain.gpu import Gpu

Uses = Mapping[str, DeviceUse]  # by UUID of the GPU or MIG device


def by_device(usage: Usage | None) -> Uses:
    """What is taken of each device that was measured."""
    return {each.uuid: each for each in usage.devices} if usage else {}


def of_gpu(gpu: Gpu, uses: Uses) -> dict[str, Any] | None:
    """What is taken of a GPU: as it says itself, or else as its MIG devices do."""
    if gpu.uuid in uses:
        return _form((uses[gpu.uuid],))
    return _form([uses[device.uuid] for device in gpu.mig_devices if device.uuid in uses])


def of_device(uuid: str, uses: Uses) -> dict[str, Any] | None:
    """What is taken of one device."""
    return _form([uses[uuid]] if uuid in uses else ())


def by_resource(inventory: Inventory | None, uses: Uses) -> dict[str, dict[str, int]]:
    """Memory in use and in all, in MiB, of the measured devices that offer each resource."""
    found: dict[str, dict[str, int]] = {}
    for share in inventory.shares if inventory else ():
        use = uses.get(share.uuid)
        if use is not None:
            sums = found.setdefault(share.resource, {"usedMib": 0, "memoryMib": 0})
            sums["usedMib"] += use.used_mib
            sums["memoryMib"] += use.memory_mib
    return found


def _form(uses: Iterable[DeviceUse]) -> dict[str, Any] | None:
    measured = tuple(uses)
    if not measured:
        return None
    single = measured[0].sm_percent if len(measured) == 1 else None
    return {
        "usedMib": sum(each.used_mib for each in measured),
        "memoryMib": sum(each.memory_mib for each in measured),
        "smPercent": single,
    }
