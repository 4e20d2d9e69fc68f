"""The newest usage, inventory and ledger → gauges. Pure.

A device that was not sampled has no series: what is not known is not shown as nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from services.advertiser import measures
from shared.contract.messages import Inventory, Ledger
from shared.contract.usage import DeviceUse, PodUse, Usage
from shared.domain.gpu import Gpu
from shared.telemetry import catalogue
from shared.telemetry.catalogue import Sample

WHOLE = 100  # percent


def samples(usage: Usage, inventory: Inventory | None, ledger: Ledger | None) -> Iterator[Sample]:
    """All series of use."""
    used = {device.uuid: device for device in usage.devices}
    if inventory is not None:
        for gpu in inventory.gpus:
            if gpu.uuid in used:
                yield from _gpu(used[gpu.uuid], gpu, inventory, ledger)
    if not usage.blind:
        for device in usage.devices:
            yield from _processes(device)


def _gpu(use: DeviceUse, gpu: Gpu, inventory: Inventory, ledger: Ledger | None) -> Iterator[Sample]:
    slots = sum(each.replicas for each in inventory.shares if each.gpu_uuid == gpu.uuid)
    labels = measures.labels(gpu) | {
        "shared": "true" if slots > 1 else "false",
        "holders": _holders(gpu, ledger),
    }
    yield catalogue.GPU_MEMORY_USED.at(use.used_mib * measures.MIB, **labels)
    if use.sm_percent is not None:
        yield catalogue.GPU_UTILIZATION.at(use.sm_percent / WHOLE, **labels)


def _holders(gpu: Gpu, ledger: Ledger | None) -> str:
    """How many pods hold slots of a GPU, empty while nobody knows."""
    if ledger is None:
        return ""
    rows = (row for row in ledger.rows if row.gpu_uuid == gpu.uuid)
    return str(len({row.holder.pod_key for row in rows if row.holder}))


def _processes(device: DeviceUse) -> Iterator[Sample]:
    for pod in device.pods:
        yield from _pod(pod, device.uuid)
    of_nobody = device.unaccounted_mib * measures.MIB
    yield catalogue.UNACCOUNTED_GPU_MEMORY_USED.at(of_nobody, uuid=device.uuid)
    yield catalogue.UNACCOUNTED_GPU_PROCESSES.at(device.unaccounted_processes, uuid=device.uuid)


def _pod(use: PodUse, uuid: str) -> Iterator[Sample]:
    holder = use.holder
    labels = {
        "namespace": holder.namespace,
        "pod": holder.pod,
        "container": holder.container,
        "uuid": uuid,
    }
    if use.memory_mib is not None:
        yield catalogue.POD_GPU_MEMORY_USED.at(use.memory_mib * measures.MIB, **labels)
    if use.sm_percent is not None:
        yield catalogue.POD_GPU_SM_UTILIZATION.at(use.sm_percent / WHOLE, **labels)
