"""What the simulated driver answers about use: memory, processes, and the time that they compute.

`READING` joins `answers.ANSWERS`, where the form of these functions is told. As the real driver's,
the use of processes is a sample of the recent past: a process that has just begun is not in it
yet, one that rests never is, and whoever has seen the newest sample already is told that there is
none. There are no samples of a GPU in MIG mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shared.nvml.errors import Code
from shared.simulation.gpu import handles
from shared.simulation.gpu.catalogue import HOPPER
from shared.simulation.gpu.state import Gpu, MigDevice, Node, Process

NO_INSTANCE = 0xFFFFFFFF
SAMPLE_US = 200_000  # between two samples; real drivers take one or several a second
WHOLE = 100  # percent of the time

Out = list[Any]


def place(device: MigDevice | None) -> dict[str, int]:
    """Name a MIG device by its ids, as events and lists of processes do."""
    if device is None:
        return {"gpuInstanceId": NO_INSTANCE, "computeInstanceId": NO_INSTANCE}
    instance, compute = device
    return {"gpuInstanceId": instance.number, "computeInstanceId": compute.number}


def _memory(node: Node, _process: str, handle: int) -> Out:
    """Compute instances share the memory of their GPU instance."""
    gpu, device = handles.device_behind(node, handle)
    instance = device[0] if device else None
    total = gpu.memory_mib if instance is None else instance.profile.memory_mib or 0
    used = node.memory_used(gpu, instance)
    return [{"total": total << 20, "free": total - used << 20, "used": used << 20}]


def _running(node: Node, _process: str, handle: int) -> Out:
    gpu, device = handles.device_behind(node, handle)
    places = {compute.uuid: (instance, compute) for instance, compute in gpu.mig_devices}
    return [
        [
            {
                "pid": each.pid,
                "usedGpuMemory": each.memory_mib << 20,
                **place(places.get(each.uuid)),
            }
            for each in _on(node, gpu, device)
        ]
    ]


def _none(node: Node, _process: str, handle: int) -> Out:
    """Nobody draws, and nobody computes through MPS."""
    handles.device_behind(node, handle)
    return [[]]


def _rates(node: Node, _process: str, handle: int) -> Out:
    gpu, device = handles.device_behind(node, handle)
    if gpu.mig_mode and (device is None or gpu.compute_capability[0] < HOPPER):
        raise handles.RefusedError(Code.NOT_SUPPORTED)
    wanted = sum(each.sm_percent for each in _on(node, gpu, device))
    return [{"gpu": min(wanted, WHOLE), "memory": 0}]


def _samples(node: Node, _process: str, handle: int, last_seen_us: int) -> Out:
    gpu, device = handles.device_behind(node, handle)
    if gpu.mig_mode:
        raise handles.RefusedError(Code.NOT_SUPPORTED)
    now_us = node.now_us()
    taken_us = now_us - now_us % SAMPLE_US
    busy = [
        each
        for each in _on(node, gpu, device)
        if each.sm_percent and each.since_us <= taken_us and taken_us > last_seen_us
    ]
    if not busy:
        raise handles.RefusedError(Code.NOT_FOUND)
    wanted = max(sum(each.sm_percent for each in busy), WHOLE)
    return [
        [
            {"pid": each.pid, "timeStamp": taken_us, "smUtil": each.sm_percent * WHOLE // wanted}
            for each in busy
        ]
    ]


def _on(node: Node, gpu: Gpu, device: MigDevice | None) -> list[Process]:
    return node.computing_on(gpu, {device[1].uuid} if device else None)


READING: Mapping[str, Callable[..., Out]] = {
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetMemoryInfo_v2": _memory,
    "nvmlDeviceGetComputeRunningProcesses_v3": _running,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": _none,
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": _none,
    "nvmlDeviceGetUtilizationRates": _rates,
    "nvmlDeviceGetProcessUtilization": _samples,
}
