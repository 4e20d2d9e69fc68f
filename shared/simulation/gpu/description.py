"""What a simulated node holds, as plain values for tests and the rehearsal's conditions. Pure."""

from __future__ import annotations

from typing import Any

from shared.simulation.gpu import capabilities, compute_answers
from shared.simulation.gpu.state import Client, Gpu, MigDevice, Node, Process


def of_node(node: Node) -> dict[str, Any]:
    """Describe all of a node."""
    return {
        "node": node.name,
        "gpus": [_gpu(gpu) for gpu in node.gpus],
        "users": sum(count > 0 for count in node.openings.values()),
        "unheard": sum(len(each.events) for each in node.event_sets.values()),
        "faults": [fault.call for fault in node.faults],
        "clients": [_client(client) for client in node.clients],
        "processes": [_process(process) for process in node.processes],
        "boots": node.boots,
        "calls": dict(sorted(node.calls.items())),
        "writes": _writes(node),
    }


def _gpu(gpu: Gpu) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "model": gpu.model,
        "product": gpu.product,
        "memoryMiB": gpu.memory_mib,
        "lost": gpu.lost,
        "migMode": gpu.mig_mode,
        "migPending": gpu.mig_pending,
        "computeMode": gpu.compute_mode,
        "instances": [_mig_device(gpu, device) for device in gpu.mig_devices],
        "gpuInstances": [
            {
                "gpuInstance": instance.number,
                "profile": instance.profile.name,
                "start": instance.start,
                "size": instance.profile.size,
                "computeInstances": len(instance.compute),
            }
            for instance in gpu.instances
        ],
    }


def _mig_device(gpu: Gpu, device: MigDevice) -> dict[str, Any]:
    instance, compute = device
    return {
        "index": compute.index,
        "uuid": compute.uuid,
        "profile": compute_answers.device_name(device),
        "start": instance.start,
        "size": instance.profile.size,
        "gpuInstance": instance.number,
        "computeInstance": compute.number,
        "capabilityMinors": [
            capabilities.minor(gpu.index, instance.number),
            capabilities.minor(gpu.index, instance.number, compute.number),
        ],
    }


def _client(client: Client) -> dict[str, Any]:
    return {"gpu": client.gpu, "name": client.name, "pid": client.pid}


def _process(process: Process) -> dict[str, Any]:
    return {
        "gpu": process.gpu,
        "uuid": process.uuid,
        "pid": process.pid,
        "name": process.name,
        "memoryMiB": process.memory_mib,
        "sm": process.sm_percent,
    }


def _writes(node: Node) -> dict[str, dict[str, int]]:
    """Say how often each writing call was made on each GPU, by its index as a text."""
    writes: dict[str, dict[str, int]] = {}
    for (gpu, symbol), count in sorted(node.writes.items()):
        writes.setdefault(str(gpu), {})[symbol] = count
    return writes
