"""What the simulated driver answers to each C symbol: the state in, values or a code out.

`ANSWERS` is the list of what is simulated. A function takes the node, the calling process and
the call's in-arguments as `library.SIGNATURES` sends them, and returns the out-arguments in
order, or raises `handles.RefusedError` with NVML's code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shared.nvml.errors import Code
from shared.simulation.gpu import compute_answers, handles, mig_answers, mps, use_answers
from shared.simulation.gpu.state import EventSet, Node

DRIVER_VERSION = "580.95.05"
CUDA_VERSION = 13000
XID_EVENT = 0x8

Out = list[Any]


# ---------------------------------------------------------------------------------- the node


def _init(node: Node, process: str, _flags: int) -> Out:
    node.openings[process] += 1
    return []


def _shutdown(node: Node, process: str) -> Out:
    node.openings[process] -= 1
    return []


def _driver_version(_node: Node, _process: str) -> Out:
    return [DRIVER_VERSION]


def _cuda_version(_node: Node, _process: str) -> Out:
    return [CUDA_VERSION]


def _count(node: Node, _process: str) -> Out:
    return [len(node.gpus)]


def _handle_by_index(node: Node, _process: str, index: int) -> Out:
    if index >= len(node.gpus):
        raise handles.RefusedError(Code.INVALID_ARGUMENT)
    return [handles.GPU | handles.present(node.gpus[index]).index]


# ----------------------------------------------------------------------------------- devices


def _uuid(node: Node, _process: str, handle: int) -> Out:
    gpu, device = handles.device_behind(node, handle)
    return [device[1].uuid if device else gpu.uuid]


def _name(node: Node, _process: str, handle: int) -> Out:
    gpu, device = handles.device_behind(node, handle)
    return [f"{gpu.product} MIG {compute_answers.device_name(device)}" if device else gpu.product]


def _minor(node: Node, _process: str, handle: int) -> Out:
    return [handles.gpu_behind(node, handle).index]


def _pci(node: Node, _process: str, handle: int) -> Out:
    gpu = handles.gpu_behind(node, handle)
    bus = int(gpu.pci_bus_id.split(":")[1], 16)
    return [{"bus": bus, "pciDeviceId": gpu.pci_device, "busId": gpu.pci_bus_id}]


def _compute_capability(node: Node, _process: str, handle: int) -> Out:
    return list(handles.gpu_behind(node, handle).compute_capability)


def _memory_affinity(node: Node, _process: str, handle: int, _words: int, _scope: int) -> Out:
    handles.gpu_behind(node, handle)
    raise handles.RefusedError(Code.NOT_SUPPORTED)  # as in most virtual machines


# ------------------------------------------------------------------------------------ events


def _event_set_create(node: Node, process: str) -> Out:
    node.event_sets_made += 1
    node.event_sets[node.event_sets_made] = EventSet(process=process)
    return [handles.EVENT_SET | node.event_sets_made]


def _register(node: Node, _process: str, handle: int, kinds: int, event_set: int) -> Out:
    gpu, device = handles.device_behind(node, handle)
    if device is not None:
        raise handles.RefusedError(Code.NOT_SUPPORTED)  # events of MIG devices come on their GPU
    if kinds & ~XID_EVENT:
        raise handles.RefusedError(Code.NOT_SUPPORTED)
    handles.event_set_behind(node, event_set).gpus.add(gpu.index)
    return []


def _wait(node: Node, _process: str, handle: int, _timeout_ms: int) -> Out:
    """Take what is there; the waiting itself is the owner's."""
    event_set = handles.event_set_behind(node, handle)
    if not event_set.events:
        lost = any(node.gpus[index].lost for index in event_set.gpus)
        raise handles.RefusedError(Code.GPU_IS_LOST if lost else Code.TIMEOUT)
    event = event_set.events.popleft()
    return [
        {
            "device": handles.GPU | event.gpu,
            "eventType": XID_EVENT,
            "eventData": event.xid,
            **use_answers.place(event.instance),
        }
    ]


def _event_set_free(node: Node, _process: str, handle: int) -> Out:
    handles.event_set_behind(node, handle)
    del node.event_sets[handle & handles.NUMBER]
    return []


INIT = "nvmlInitWithFlags"
WAIT = "nvmlEventSetWait_v2"

WRITING: Mapping[str, Callable[..., Out]] = {
    **mig_answers.WRITING,
    **compute_answers.WRITING,
    **mps.WRITING,
}

ANSWERS: Mapping[str, Callable[..., Out]] = {
    INIT: _init,
    "nvmlShutdown": _shutdown,
    "nvmlSystemGetDriverVersion": _driver_version,
    "nvmlSystemGetCudaDriverVersion_v2": _cuda_version,
    "nvmlDeviceGetCount_v2": _count,
    "nvmlDeviceGetHandleByIndex_v2": _handle_by_index,
    "nvmlDeviceGetUUID": _uuid,
    "nvmlDeviceGetName": _name,
    "nvmlDeviceGetMinorNumber": _minor,
    "nvmlDeviceGetPciInfo_v3": _pci,
    "nvmlDeviceGetCudaComputeCapability": _compute_capability,
    "nvmlDeviceGetMemoryAffinity": _memory_affinity,
    **use_answers.READING,
    **mig_answers.READING,
    **compute_answers.READING,
    **mps.READING,
    **WRITING,
    "nvmlEventSetCreate": _event_set_create,
    "nvmlDeviceRegisterEvents": _register,
    WAIT: _wait,
    "nvmlEventSetFree": _event_set_free,
}
