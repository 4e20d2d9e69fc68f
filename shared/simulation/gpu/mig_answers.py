"""What the simulated driver answers about MIG: mode, MIG devices, GPU instances and their making.

`READING` and `WRITING` join `answers.ANSWERS`, where the form of these functions is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shared.nvml.errors import Code
from shared.simulation.gpu import compute_answers, handles, lifecycle, rules
from shared.simulation.gpu.catalogue import Profile
from shared.simulation.gpu.state import Gpu, Node

PROFILE_NUMBERS = 0x12  # NVML_GPU_INSTANCE_PROFILE_COUNT

Out = list[Any]
# -------------------------------------------------------------------------------------- mode


def _mode(node: Node, _process: str, handle: int) -> Out:
    gpu = _capable(node, handle)
    return [int(gpu.mig_mode), int(gpu.mig_pending)]


def _set_mode(node: Node, process: str, handle: int, mode: int) -> Out:
    gpu = _capable(node, handle)
    if mode not in (0, 1):
        raise handles.RefusedError(Code.INVALID_ARGUMENT)
    return [int(lifecycle.set_mode(node, process, gpu, on=mode == 1))]


def _capable(node: Node, handle: int) -> Gpu:
    gpu = handles.gpu_behind(node, handle)
    if gpu.layout is None:
        raise handles.RefusedError(Code.NOT_SUPPORTED)
    return gpu


# ------------------------------------------------------------------------------- MIG devices


def _most_devices(node: Node, _process: str, handle: int) -> Out:
    gpu = handles.gpu_behind(node, handle)
    return [max(profile.most for profile in gpu.profiles) if gpu.mig_mode else 0]


def _device_by_index(node: Node, _process: str, handle: int, index: int) -> Out:
    devices = handles.gpu_behind(node, handle).mig_devices
    found = (compute.serial for _, compute in devices if compute.index == index)
    return [handles.MIG_DEVICE | handles.first(found, Code.NOT_FOUND)]


def _parent(node: Node, _process: str, handle: int) -> Out:
    return [handles.GPU | handles.mig_device_behind(node, handle)[0].index]


def _is_mig(node: Node, _process: str, handle: int) -> Out:
    return [int(handles.device_behind(node, handle)[1] is not None)]


def _gpu_instance_id(node: Node, _process: str, handle: int) -> Out:
    return [handles.mig_device_behind(node, handle)[1][0].number]


def _compute_instance_id(node: Node, _process: str, handle: int) -> Out:
    return [handles.mig_device_behind(node, handle)[1][1].number]


def _attributes(node: Node, _process: str, handle: int) -> Out:
    instance, compute = handles.mig_device_behind(node, handle)[1]
    profile = instance.profile
    return [
        {
            "multiprocessorCount": compute_answers.multiprocessors(profile, compute.profile),
            **compute_answers.shared_engines(profile),
            "gpuInstanceSliceCount": profile.slices,
            "computeInstanceSliceCount": compute.profile.slices,
            "memorySizeMB": profile.memory_mib,
        }
    ]


# ----------------------------------------------------------------------------- GPU instances


def _profile(gpu: Gpu, profile_id: int) -> Profile:
    return handles.first(
        (each for each in gpu.profiles if each.id == profile_id), Code.INVALID_ARGUMENT
    )


def _profile_info(node: Node, _process: str, handle: int, number: int) -> Out:
    gpu = handles.gpu_behind(node, handle)
    if number >= PROFILE_NUMBERS:
        raise handles.RefusedError(Code.INVALID_ARGUMENT)
    mine = (each for each in gpu.profiles if each.number == number and each.published)
    profile = handles.first(mine, Code.NOT_SUPPORTED)
    return [
        {
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
    ]


def _placements(node: Node, _process: str, handle: int, profile_id: int) -> Out:
    """List where instances of a profile may stand, whatever stands there, in any mode."""
    profile = _profile(_capable(node, handle), profile_id)
    return [[{"start": start, "size": profile.size} for start in profile.starts]]


def _capacity(node: Node, _process: str, handle: int, profile_id: int) -> Out:
    gpu = handles.gpu_behind(node, handle)
    lifecycle.refuse_without_mode(gpu)
    return [rules.room(gpu, _profile(gpu, profile_id))]


def _create(node: Node, _process: str, handle: int, profile_id: int) -> Out:
    return _create_at(node, handle, profile_id, None)


def _create_placed(
    node: Node, _process: str, handle: int, profile_id: int, start: int, size: int
) -> Out:
    gpu = handles.gpu_behind(node, handle)
    lifecycle.refuse_without_mode(gpu)
    if size != _profile(gpu, profile_id).size:
        raise handles.RefusedError(Code.INVALID_ARGUMENT)
    return _create_at(node, handle, profile_id, start)


def _create_at(node: Node, handle: int, profile_id: int, start: int | None) -> Out:
    gpu = handles.gpu_behind(node, handle)
    lifecycle.refuse_without_mode(gpu)
    instance = lifecycle.create(node, gpu, _profile(gpu, profile_id), start)
    return [handles.GPU_INSTANCE | instance.serial]


def _destroy(node: Node, _process: str, handle: int) -> Out:
    lifecycle.destroy(*handles.gpu_instance_behind(node, handle))
    return []


def _instances(node: Node, _process: str, handle: int, profile_id: int) -> Out:
    gpu = handles.gpu_behind(node, handle)
    lifecycle.refuse_without_mode(gpu)
    profile = _profile(gpu, profile_id)
    return [
        [handles.GPU_INSTANCE | each.serial for each in gpu.instances if each.profile == profile]
    ]


def _instance_by_id(node: Node, _process: str, handle: int, number: int) -> Out:
    gpu = handles.gpu_behind(node, handle)
    lifecycle.refuse_without_mode(gpu)
    found = (each.serial for each in gpu.instances if each.number == number)
    return [handles.GPU_INSTANCE | handles.first(found, Code.NOT_FOUND)]


def _instance_info(node: Node, _process: str, handle: int) -> Out:
    gpu, instance = handles.gpu_instance_behind(node, handle)
    return [
        {
            "device": handles.GPU | gpu.index,
            "id": instance.number,
            "profileId": instance.profile.id,
            "placement": {"start": instance.start, "size": instance.profile.size},
        }
    ]


READING: Mapping[str, Callable[..., Out]] = {
    "nvmlDeviceGetMigMode": _mode,
    "nvmlDeviceGetMaxMigDeviceCount": _most_devices,
    "nvmlDeviceGetMigDeviceHandleByIndex": _device_by_index,
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": _parent,
    "nvmlDeviceIsMigDeviceHandle": _is_mig,
    "nvmlDeviceGetGpuInstanceId": _gpu_instance_id,
    "nvmlDeviceGetComputeInstanceId": _compute_instance_id,
    "nvmlDeviceGetAttributes_v2": _attributes,
    "nvmlDeviceGetGpuInstanceProfileInfoV": _profile_info,
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2": _placements,
    "nvmlDeviceGetGpuInstanceRemainingCapacity": _capacity,
    "nvmlDeviceGetGpuInstances": _instances,
    "nvmlDeviceGetGpuInstanceById": _instance_by_id,
    "nvmlGpuInstanceGetInfo": _instance_info,
}
WRITING: Mapping[str, Callable[..., Out]] = {
    "nvmlDeviceSetMigMode": _set_mode,
    "nvmlDeviceCreateGpuInstance": _create,
    "nvmlDeviceCreateGpuInstanceWithPlacement": _create_placed,
    "nvmlGpuInstanceDestroy": _destroy,
}
