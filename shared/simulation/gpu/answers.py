"""What the simulated driver answers to each C symbol: the state in, values or a code out.

`ANSWERS` is the list of what is simulated. A function takes the node, the calling process and
the call's in-arguments as `library.SIGNATURES` sends them, and returns the out-arguments in
order, or raises `handles.RefusedError` with NVML's code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shared.nvml.errors import Code
from shared.simulation.gpu import handles
from shared.simulation.gpu.catalogue import Profile
from shared.simulation.gpu.state import EventSet, Node

DRIVER_VERSION = "580.95.05"
CUDA_VERSION = 13000
XID_EVENT = 0x8
NO_INSTANCE = 0xFFFFFFFF
PROFILE_NUMBERS = 0x12  # NVML_GPU_INSTANCE_PROFILE_COUNT

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
    gpu, instance = handles.device_behind(node, handle)
    return [instance.uuid if instance else gpu.uuid]


def _name(node: Node, _process: str, handle: int) -> Out:
    gpu, instance = handles.device_behind(node, handle)
    return [f"{gpu.product} MIG {instance.profile.name}" if instance else gpu.product]


def _minor(node: Node, _process: str, handle: int) -> Out:
    return [handles.gpu_behind(node, handle).index]


def _pci(node: Node, _process: str, handle: int) -> Out:
    gpu = handles.gpu_behind(node, handle)
    bus = int(gpu.pci_bus_id.split(":")[1], 16)
    return [{"bus": bus, "pciDeviceId": gpu.pci_device, "busId": gpu.pci_bus_id}]


def _memory(node: Node, _process: str, handle: int) -> Out:
    gpu, instance = handles.device_behind(node, handle)
    total = ((instance.profile.memory_mib or 0) if instance else gpu.memory_mib) << 20
    return [{"total": total, "free": total, "used": 0}]


def _compute_capability(node: Node, _process: str, handle: int) -> Out:
    return list(handles.gpu_behind(node, handle).compute_capability)


def _memory_affinity(node: Node, _process: str, handle: int, _words: int, _scope: int) -> Out:
    handles.gpu_behind(node, handle)
    raise handles.RefusedError(Code.NOT_SUPPORTED)  # as in most virtual machines


# --------------------------------------------------------------------------------------- MIG


def _mig_mode(node: Node, _process: str, handle: int) -> Out:
    gpu = handles.gpu_behind(node, handle)
    if gpu.layout is None:
        raise handles.RefusedError(Code.NOT_SUPPORTED)
    return [int(gpu.mig_mode), int(gpu.mig_mode)]


def _most_mig_devices(node: Node, _process: str, handle: int) -> Out:
    gpu = handles.gpu_behind(node, handle)
    return [max(profile.most for profile in gpu.profiles) if gpu.mig_mode else 0]


def _mig_device_by_index(node: Node, _process: str, handle: int, index: int) -> Out:
    for instance in handles.gpu_behind(node, handle).instances:
        if instance.index == index:
            return [handles.MIG_DEVICE | instance.serial]
    raise handles.RefusedError(Code.NOT_FOUND)


def _gpu_instance_id(node: Node, _process: str, handle: int) -> Out:
    return [handles.mig_device_behind(node, handle)[1].gpu_instance]


def _compute_instance_id(node: Node, _process: str, handle: int) -> Out:
    return [handles.mig_device_behind(node, handle)[1].compute_instance]


def _attributes(node: Node, _process: str, handle: int) -> Out:
    profile = handles.mig_device_behind(node, handle)[1].profile
    return [
        {
            "multiprocessorCount": profile.multiprocessors,
            "sharedCopyEngineCount": profile.copy_engines,
            "sharedDecoderCount": profile.decoders,
            "sharedEncoderCount": profile.encoders,
            "sharedJpegCount": profile.jpeg,
            "sharedOfaCount": profile.ofa,
            "gpuInstanceSliceCount": profile.slices,
            "computeInstanceSliceCount": profile.slices,
            "memorySizeMB": profile.memory_mib,
        }
    ]


def _gpu_instance_by_id(node: Node, _process: str, handle: int, number: int) -> Out:
    for instance in handles.gpu_behind(node, handle).instances:
        if instance.gpu_instance == number:
            return [handles.GPU_INSTANCE | instance.serial]
    raise handles.RefusedError(Code.NOT_FOUND)


def _gpu_instance_info(node: Node, _process: str, handle: int) -> Out:
    gpu, instance = handles.instance_behind(node, handle, handles.GPU_INSTANCE)
    return [
        {
            "device": handles.GPU | gpu.index,
            "id": instance.gpu_instance,
            "profileId": instance.profile.id,
            "placement": {"start": instance.start, "size": instance.profile.size},
        }
    ]


def _profile_info(node: Node, _process: str, handle: int, number: int) -> Out:
    gpu = handles.gpu_behind(node, handle)
    if number >= PROFILE_NUMBERS:
        raise handles.RefusedError(Code.INVALID_ARGUMENT)
    for profile in gpu.profiles:
        if profile.number == number and profile.memory_mib is not None:
            return [_profile_struct(profile)]
    raise handles.RefusedError(Code.NOT_SUPPORTED)


def _profile_struct(profile: Profile) -> dict[str, Any]:
    return {
        "id": profile.id,
        "isP2pSupported": 0,
        "sliceCount": profile.slices,
        "instanceCount": profile.most,
        "multiprocessorCount": profile.multiprocessors or 0,
        "copyEngineCount": profile.copy_engines or 0,
        "decoderCount": profile.decoders or 0,
        "encoderCount": profile.encoders or 0,
        "jpegCount": profile.jpeg or 0,
        "ofaCount": profile.ofa or 0,
        "memorySizeMB": profile.memory_mib or 0,
        "name": f"MIG {profile.name}",
    }


# ------------------------------------------------------------------------------------ events


def _event_set_create(node: Node, process: str) -> Out:
    node.event_sets_made += 1
    node.event_sets[node.event_sets_made] = EventSet(process=process)
    return [handles.EVENT_SET | node.event_sets_made]


def _register(node: Node, _process: str, handle: int, kinds: int, event_set: int) -> Out:
    gpu, instance = handles.device_behind(node, handle)
    if instance is not None:
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
    instance = event.instance
    return [
        {
            "device": handles.GPU | event.gpu,
            "eventType": XID_EVENT,
            "eventData": event.xid,
            "gpuInstanceId": NO_INSTANCE if instance is None else instance.gpu_instance,
            "computeInstanceId": NO_INSTANCE if instance is None else instance.compute_instance,
        }
    ]


def _event_set_free(node: Node, _process: str, handle: int) -> Out:
    handles.event_set_behind(node, handle)
    del node.event_sets[handle & handles.NUMBER]
    return []


INIT = "nvmlInitWithFlags"
WAIT = "nvmlEventSetWait_v2"

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
    "nvmlDeviceGetMemoryInfo": _memory,
    "nvmlDeviceGetCudaComputeCapability": _compute_capability,
    "nvmlDeviceGetMemoryAffinity": _memory_affinity,
    "nvmlDeviceGetMigMode": _mig_mode,
    "nvmlDeviceGetMaxMigDeviceCount": _most_mig_devices,
    "nvmlDeviceGetMigDeviceHandleByIndex": _mig_device_by_index,
    "nvmlDeviceGetGpuInstanceId": _gpu_instance_id,
    "nvmlDeviceGetComputeInstanceId": _compute_instance_id,
    "nvmlDeviceGetAttributes_v2": _attributes,
    "nvmlDeviceGetGpuInstanceById": _gpu_instance_by_id,
    "nvmlGpuInstanceGetInfo": _gpu_instance_info,
    "nvmlDeviceGetGpuInstanceProfileInfoV": _profile_info,
    "nvmlEventSetCreate": _event_set_create,
    "nvmlDeviceRegisterEvents": _register,
    WAIT: _wait,
    "nvmlEventSetFree": _event_set_free,
}
