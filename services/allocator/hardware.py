"""An inventory → the devices that slots stand on, and why a device's slots are withheld. Pure."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from shared.contract.messages import Inventory
from shared.domain.gpu import Gpu, Health

UNCONFIRMED = (
    "the node may have booted since this MIG device was seen; it waits for the advertiser's look"
)


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU or MIG device. `trouble` withholds all its slots and says why.

    `gone`: the node no longer has it. A GPU that has fallen off the bus is still there for the
    kubelet's count and for its holders, sick like any other.
    """

    uuid: str
    gpu_uuid: str
    gpu_index: int
    minor: int
    numa_node: int | None
    trouble: str = ""
    gone: bool = False
    nodes: tuple[str, ...] = ()  # device nodes beside the GPU's own


def devices(inventory: Inventory | None, *, confirmed: bool) -> dict[str, Device]:
    """Every GPU and MIG device by UUID; what strikes a GPU strikes its MIG devices too."""
    known: dict[str, Device] = {}
    for gpu in inventory.gpus if inventory else ():
        known[gpu.uuid] = _device(gpu, gpu.uuid, gpu.health)
        for part in gpu.mig_devices:
            health = part.health if gpu.health.usable else gpu.health
            doubt = "" if confirmed else UNCONFIRMED
            device = _device(gpu, part.uuid, health, doubt)
            known[part.uuid] = dataclasses.replace(device, nodes=part.nodes)
    return known


def absent(uuid: str, gpu_uuid: str, *, gone: bool = True) -> Device:
    """A device that no inventory shows; not `gone` while there has been no inventory at all."""
    trouble = f"{uuid} is no longer on this node" if gone else f"{uuid} has not been seen yet"
    return Device(uuid, gpu_uuid, -1, -1, None, trouble, gone)


def _device(gpu: Gpu, uuid: str, health: Health, doubt: str = "") -> Device:
    trouble = "" if health.usable else f"{uuid} is {health.state.value}: {health.reason}"
    return Device(uuid, gpu.uuid, gpu.index, gpu.minor, gpu.numa_node, trouble or doubt)
