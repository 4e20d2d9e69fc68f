"""The inventory → samples: which GPUs and MIG devices there are, and how they are.

Pure; `app` shows it to the meters.
"""

from __future__ import annotations

from collections.abc import Iterator

from shared.contract.messages import Inventory
from shared.domain.gpu import Gpu
from shared.telemetry import catalogue
from shared.telemetry.catalogue import Sample

MIB = 1024 * 1024


def samples(inventory: Inventory | None) -> Iterator[Sample]:
    """Say what the inventory says; nothing where there is none yet."""
    daemons = {daemon.gpu_uuid: daemon for daemon in inventory.mps} if inventory else {}
    for gpu in inventory.gpus if inventory else ():
        known = labels(gpu)
        yield catalogue.GPU_INFO.at(1, **known, pci=gpu.pci_bus_id)
        yield catalogue.GPU_HEALTHY.at(gpu.health.usable, **known)
        yield catalogue.GPU_MEMORY_SIZE.at(gpu.memory_mib * MIB, **known)
        if daemon := daemons.get(gpu.uuid):
            yield catalogue.MPS_DAEMON_READY.at(daemon.ready, **known)
        yield from _instances(gpu)


def labels(gpu: Gpu) -> dict[str, str]:
    """What names a GPU in every series about it."""
    return {"uuid": gpu.uuid, "index": str(gpu.index), "model": gpu.model}


def _instances(gpu: Gpu) -> Iterator[Sample]:
    for device in gpu.mig_devices:
        yield catalogue.MIG_INSTANCE_INFO.at(
            1,
            uuid=device.uuid,
            parent=gpu.uuid,
            gpu_instance=str(device.gpu_instance),
            compute_instance=str(device.compute_instance),
            profile=device.profile,
        )
